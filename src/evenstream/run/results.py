"""From what a run has measured to its `metrics.json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evenstream import metrics
from evenstream.core.passes import BACKWARD, FORWARD
from evenstream.learner.learner import Learner
from evenstream.run.config import RunConfig
from evenstream.run.evaluation import Evaluation
from evenstream.run.metrics_file import METRICS_FORMAT, Metrics
from evenstream.run.position import Position
from evenstream.streams import Stream


def sum_up(config: RunConfig, evaluation: Evaluation, learner: Learner, at: Position) -> Metrics:
    """All numbers of a run so far; those of the whole stream are None until it is finished."""
    stream, matrix = evaluation.stream, at.matrix
    finished = len(matrix) == len(stream)
    entries = {
        "format": METRICS_FORMAT,
        "method": config.method,
        "stream": config.stream,
        "seed": config.seed,
        "status": "finished" if finished else "unfinished",
        "tasks": stream.class_names(),
        "classes": stream.dataset.label_names,
        "accuracy_matrix": matrix,
        "average_accuracy": metrics.average_accuracies(matrix) if matrix else [],
        "class_balanced": {
            "task_mean": at.balanced_over_tasks,
            "class_mean": at.balanced_over_classes,
        },
        **_of_the_whole_stream(config, learner, at, finished),
        **metrics.own_metrics(matrix if finished else None),
        "true_share": evaluation.true_share(),
        "online": _online(evaluation, at),
        **_prequential(at),
        **_cost(config, stream, at),
        "train_seconds_after_task": at.seconds_after_task,
        "train_seconds": at.train_seconds,
        "eval_seconds": at.eval_seconds,
        "steps": learner.step,
        "epochs": config.epochs,
        "samples": at.samples,
        "samples_per_second": at.samples / at.train_seconds if at.train_seconds else None,
        "single_class_steps": at.single_class_steps,
        "skipped_train": asdict(at.skipped_train),
        "skipped_test": asdict(at.skipped_test),
        "device": learner.options.device,
        "dtype": learner.options.dtype,
        "threads": config.threads,
    }
    return Metrics(entries)


def _of_the_whole_stream(
    config: RunConfig, learner: Learner, at: Position, finished: bool
) -> dict[str, Any]:
    """The numbers that need every task."""
    found = dict.fromkeys(
        (
            "A_T",
            "A_T_cbl",
            "A_T_cbl_classes",
            "A_AUC",
            "F_T",
            "F_T_literal",
            "F_T_mammoth",
            "BWT",
            "FWT",
            "ECE",
            "recency_bias",
            "prediction_share",
            "class_recall",
            "untrained_accuracy",
        )
    )
    if not finished:
        return found
    matrix, final = at.matrix, at.final
    found |= {
        "A_T": metrics.average_accuracy(matrix),
        "A_T_cbl": at.balanced_over_tasks[-1],
        "A_T_cbl_classes": at.balanced_over_classes[-1],
        "F_T": metrics.forgetting(matrix),
        "F_T_mammoth": metrics.forgetting_mammoth(matrix),
        "BWT": metrics.backward_transfer(matrix),
        **final,
    }
    if config.eval_every:
        found["A_AUC"] = metrics.area_under_accuracy(at.online, config.eval_every, learner.step)
    if config.eval_future:
        found["F_T_literal"] = metrics.forgetting(matrix, zero_padded=False)
        if not config.weights:
            found["FWT"] = metrics.forward_transfer(matrix, final["untrained_accuracy"])
    return found


def _online(evaluation: Evaluation, at: Position) -> dict[str, Any] | None:
    return {**evaluation.describe_online(), "accuracy": at.online} if evaluation.every else None


def _prequential(at: Position) -> dict[str, Any]:
    """Of the first epoch: later ones have seen the samples."""
    seen = at.prequential
    return {
        "prequential_accuracy": seen.overall,
        "prequential_recent": seen.recent,
        "prequential_window": seen.window,
    }


def _replayed(config: RunConfig, stream: Stream, tasks: int) -> float:
    """Rows that er-las replays for each one that arrives, with the stream's usual sizes."""
    usual = stream.protocol
    samples, steps = stream.count(tasks, usual.batch)
    replayed = min(usual.replay_batch, usual.memory)
    lacking = sum(replayed - stored for stored in range(0, replayed, usual.batch))  # at first
    return (replayed * steps - lacking / config.epochs) / max(samples, 1)


def _cost(config: RunConfig, stream: Stream, at: Position) -> dict[str, Any]:
    """Image passes, also over those that er-las with the stream's usual sizes takes."""
    replayed = _replayed(config, stream, len(at.matrix))
    reference = at.samples * (FORWARD + BACKWARD) * (1 + replayed)
    return {
        "image_passes": at.passes,
        "relative_cost": None if at.passes is None or not reference else at.passes / reference,
        "image_passes_prequential": at.passes_aside,
        "cpu_seconds": at.cpu_seconds,
    }
