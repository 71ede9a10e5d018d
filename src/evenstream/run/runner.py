"""One run: a method on a stream, with checkpoints, events, metrics, and exact resume."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from evenstream import metrics
from evenstream.checkpoint import has_checkpoint, write_checkpoint
from evenstream.errors import DataWarning
from evenstream.files import write_atomically
from evenstream.interruption import Interrupted, StopFlag
from evenstream.run.announcing import Progress, Silent
from evenstream.run.config import RunConfig
from evenstream.run.data_identity import describe_data
from evenstream.run.environment import record_session
from evenstream.run.events import EVALUATED, ONLINE, EventLog, cut_back
from evenstream.run.folder import (
    CHECKPOINTS,
    claim_folder,
    finished_metrics,
    resume_command,
)
from evenstream.run.metrics_file import METRICS, Metrics
from evenstream.run.position import Position, Skipped
from evenstream.run.preparation import (
    make_batch_sizes,
    make_evaluation,
    make_learner,
    own_functions,
    prepare,
)
from evenstream.run.results import sum_up
from evenstream.run.session import take_up, work_on
from evenstream.streams import Stream
from evenstream.streams.stream import Batch

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
NAMED_SKIPPED = 3
"""Samples that could not be read are named in warnings up to so many; metrics.json has more."""


def start_run(
    config: RunConfig, out: Path, progress: Progress | None = None, stop: StopFlag | None = None
) -> Metrics:
    """Make a run in a new folder; returns its metrics.

    Without a `stop` flag, Ctrl-C and SIGTERM save the run and raise `Interrupted`.
    """
    stream = prepare(config)
    claim_folder(out, config)
    return execute(config, stream, out, progress, stop)


def resume_run(
    out: Path, progress: Progress | None = None, stop: StopFlag | None = None
) -> Metrics:
    """Go on with a run from its newest checkpoint; a finished run is left alone."""
    config = RunConfig.read(out)
    done = finished_metrics(out)
    if done is not None:
        return done
    saved = has_checkpoint(out / CHECKPOINTS)  # then the file of weights is not needed any more
    stream = prepare(replace(config, weights=None) if saved else config)
    return execute(config, stream, out, progress, stop)


def execute(
    config: RunConfig,
    stream: Stream,
    out: Path,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
) -> Metrics:
    """Make a run, or the rest of it, in a folder that was claimed for it; returns its metrics."""
    progress = progress or Silent()
    return work_on(out, config, lambda: _Run(config, stream, out, progress), stop)


class _Run:
    """The loop over tasks and batches."""

    def __init__(self, config: RunConfig, stream: Stream, out: Path, progress: Progress) -> None:
        self.config, self.out, self.progress = config, out, progress
        self.checkpoints = out / CHECKPOINTS
        self.data = describe_data(stream)
        self.at = Position()
        if has_checkpoint(self.checkpoints):
            self.learner, self.at = take_up(
                out,
                "run",
                config,
                self.data,
                config.device,
                Position.from_state,
                own_functions(config),
            )
        else:
            self.learner = make_learner(config, stream)
            self.at.count_cost()
        self.stream = stream.shuffled() if "shuffled" in self.learner.needs else stream
        self.evaluation = make_evaluation(config, stream)
        self.batch = make_batch_sizes(config, stream)
        record_session(out, self.learner.step)
        cut_back(out, self.learner.step, self.at.task)
        self.events = EventLog(out)
        self._flushed = time.monotonic()

    def close(self) -> None:
        self.progress.close()
        self.events.close()

    def go(self, stop: StopFlag) -> Metrics:
        done = self.learner.step
        steps = done + self._steps_left()
        self.progress.start(self.config.method, self.config.seed, steps, done)
        log.info("%s in %s: from step %d of %d", self.config.method, self.out, done, steps)
        while self.at.task < len(self.stream):
            self._train_task(stop)
            self._evaluate_task()
            self.at.task, self.at.epoch, self.at.batch = self.at.task + 1, 0, 0
            self._checkpoint()
            self._write_metrics()
        found = self._write_metrics()
        log.info("%s in %s: finished", self.config.method, self.out)
        return found

    def _steps_left(self) -> int:
        """Steps from here to the end, as if no task to come held any rows out."""
        at, stream = self.at, self.stream
        held_out = len(at.held_out) if self.learner.in_task else 0
        steps = [
            stream.steps(task, self.batch, held_out if task == at.task else 0)
            for task in range(at.task, len(stream))
        ]
        made = at.epoch * steps[0] + at.batch if steps else 0
        return sum(steps) * self.config.epochs - made

    def _train_task(self, stop: StopFlag) -> None:
        at, learner, stream = self.at, self.learner, self.stream
        twice = "second_pass" in learner.needs
        data = stream.task_data(at.task) if twice else None
        if not learner.in_task and stream.boundaries:
            with self._training():
                at.held_out = learner.start_task(stream.label_counts(at.task), data)
                if self.config.reset_optimizer:
                    learner.reset_optimizer()
            self.progress.expect(learner.step + self._steps_left())
        while True:
            self._train_epoch(stop)
            if at.epoch + 1 == self.config.epochs:
                break
            at.epoch, at.batch = at.epoch + 1, 0
            with self._training():
                learner.start_epoch()
        if learner.in_task:
            if twice:  # what comes now may take long and cannot be cut in two
                self._checkpoint()
            with self._training():
                learner.end_task(data)

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Count time and image passes as training."""
        began, cpu, passes = time.perf_counter(), time.process_time(), self.learner.passes
        passes.reset()  # small sums, so that a resumed run rounds as an uninterrupted one
        yield
        self.at.train_seconds += time.perf_counter() - began
        spent = time.process_time() - cpu - passes.cpu_aside
        self.at.add_cost(passes.count, passes.aside, spent)

    def _train_epoch(self, stop: StopFlag) -> None:
        at, size = self.at, self.batch
        steps = self.stream.steps(at.task, size, len(at.held_out)) * self.config.epochs
        batches = self.stream.batches(at.task, size, at.batch, epoch=at.epoch, held_out=at.held_out)
        for batch in batches:
            made = at.epoch * steps // self.config.epochs + at.batch
            self._set_rate(self.config.lr_at(at.epoch, made / steps))
            self.at.batch += 1
            self._skip(batch.skipped)
            if len(batch.labels):
                self._learn(batch)
                if self.config.eval_every and self.learner.step % self.config.eval_every == 0:
                    self._evaluate_online()
            stopping = stop.is_set()
            due = batch.labels and self.learner.step % self.config.checkpoint_every == 0
            if stopping or due:
                self._checkpoint()
            elif time.monotonic() - self._flushed > FLUSH_SECONDS:
                self._flush()
            if stopping:
                self._write_metrics()
                raise Interrupted(
                    f"stopped at step {self.learner.step} and saved; "
                    f"continue with `{resume_command(self.out)}`"
                )

    def _set_rate(self, rate: float) -> None:
        if rate != self.learner.options.lr:
            self.learner.lr = rate

    def _skip(self, samples: Sequence[str]) -> None:
        """Count training samples that could not be read; name the first few."""
        skipped = self.at.skipped_train
        for sample in samples[: max(NAMED_SKIPPED - skipped.count, 0)]:
            warnings.warn(
                f"left out a sample that cannot be read: {sample}", DataWarning, stacklevel=2
            )
        skipped.add(samples)

    def _learn(self, batch: Batch) -> None:
        store = self.at.epoch == 0 or self.config.store == "every-epoch"
        with self._training():
            result = self.learner.learn(batch.x, batch.labels, store=store)
        samples = len(batch.labels)
        self.at.samples += samples
        self.at.single_class_steps += result.single_class
        if result.accuracy is not None and self.at.epoch == 0:
            self.at.prequential.add(round(result.accuracy * samples), samples)
        self.events.write(
            {
                "step": result.step,
                "task": self.at.task,
                "loss": result.loss,
                "accuracy": result.accuracy,
                "rows": result.rows,
                "seconds": round(self.at.train_seconds, 4),
            }
        )
        self.progress.step(result, samples)

    def _evaluate_online(self) -> None:
        began = time.perf_counter()
        accuracy = self.evaluation.online(self.learner)
        self.at.eval_seconds += time.perf_counter() - began
        self.at.online.append(accuracy)
        self.events.write(
            {
                "step": self.learner.step,
                "task": self.at.task,
                "event": ONLINE,
                "accuracy": accuracy,
                "samples": self.at.samples,
            }
        )
        self.progress.online(accuracy)

    def _evaluate_task(self) -> None:
        at, task = self.at, self.at.task
        self.progress.evaluating(task)
        began = time.perf_counter()
        found = self.evaluation.after_task(self.learner, task)
        at.final = found.final
        if at.final and self.config.eval_future and not self.config.weights:
            untrained = make_learner(self.config, self.stream)
            at.final["untrained_accuracy"] = self.evaluation.untrained(untrained)
        at.eval_seconds += time.perf_counter() - began
        unmeasured = len(self.stream) - len(found.accuracies)
        at.matrix.append([*found.accuracies, *[None] * unmeasured])
        at.balanced_over_tasks.append(found.balanced_over_tasks)
        at.balanced_over_classes.append(found.balanced_over_classes)
        at.seconds_after_task.append(at.train_seconds)
        if len(found.skipped) > at.skipped_test.count:
            warnings.warn(
                f"left out {len(found.skipped)} test sample(s) that cannot be read, the first: "
                f"{found.skipped[0]}",
                DataWarning,
                stacklevel=2,
            )
        at.skipped_test = Skipped()
        at.skipped_test.add(found.skipped)
        self.events.write(
            {
                "step": self.learner.step,
                "task": task,
                "event": EVALUATED,
                "accuracies": found.accuracies,
            }
        )
        self.progress.evaluated(task, metrics.average_accuracies(at.matrix)[-1])

    def _flush(self, *, sync: bool = False) -> None:
        self.events.flush(sync=sync)
        self._flushed = time.monotonic()

    def _checkpoint(self) -> None:
        self._flush(sync=True)
        tree = {
            "kind": "run",
            "config": asdict(self.config),
            "data": self.data,
            "learner": self.learner.state(),
            "position": self.at.state(),
        }
        write_checkpoint(self.checkpoints, self.learner.step, tree)

    def _write_metrics(self) -> Metrics:
        found = sum_up(self.config, self.evaluation, self.learner, self.at)
        write_atomically(self.out / METRICS, json.dumps(found.entries, indent=1))
        return found
