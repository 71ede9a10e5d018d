"""One run: a method on a stream, with checkpoints, events, metrics, and exact resume."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from evenstream import metrics
from evenstream.checkpoint import has_checkpoint, read_checkpoint, tidy, write_checkpoint
from evenstream.errors import CheckpointError, EvenstreamError, InputError
from evenstream.learner.learner import Learner
from evenstream.run.config import COMPARISON, CONFIG, RunConfig
from evenstream.run.environment import describe_environment
from evenstream.run.events import EVALUATED, EventLog, cut_back
from evenstream.run.files import TEMPORARY, exclusive, write_atomically
from evenstream.run.interruption import Interrupted, StopFlag, stop_on_signal
from evenstream.run.progress import Progress, Silent
from evenstream.streams import Stream, open_stream

METRICS = "metrics.json"
CHECKPOINTS = "checkpoint"
FLUSH_SECONDS = 2.0
MAY_CHANGE = {"stream", "device", "threads", "checkpoint_every"}
"""Entries of config.toml that may be edited before a resume: data moved, another machine."""


@dataclass
class Position:
    """Where a run is, and what it has measured so far."""

    task: int = 0
    batch: int = 0
    matrix: list[list[float | None]] = field(default_factory=list)
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    seconds_after_task: list[float] = field(default_factory=list)
    prediction_share: list[float | None] = field(default_factory=list)
    samples: int = 0
    single_class_steps: int = 0


def start_run(
    config: RunConfig, out: Path, progress: Progress | None = None, stop: StopFlag | None = None
) -> dict[str, Any]:
    """Make a run in a new folder; returns its metrics.

    Without a `stop` flag, Ctrl-C and SIGTERM save the run and raise `Interrupted`.
    """
    stream = prepare(config)
    claim_folder(out, config)
    return execute(config, stream, out, progress, stop)


def resume_run(
    out: Path, progress: Progress | None = None, stop: StopFlag | None = None
) -> dict[str, Any]:
    """Go on with a run from its newest checkpoint; a finished run is left alone."""
    config = RunConfig.read(out)
    return finished_metrics(out) or execute(config, prepare(config), out, progress, stop)


def read_metrics(out: Path) -> dict[str, Any] | None:
    """The metrics of a run, or None if it has not written any yet."""
    try:
        found = json.loads((out / METRICS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def finished_metrics(out: Path) -> dict[str, Any] | None:
    """The metrics of a run that is finished, else None."""
    found = read_metrics(out)
    return found if found is not None and found.get("status") == "finished" else None


def prepare(config: RunConfig) -> Stream:
    """Open the stream of a run and check everything that can be checked before it runs."""
    _make_learner(config)  # refuses bad options before any data is loaded
    stream = open_stream(
        config.stream,
        seed=config.seed,
        class_order=config.class_order,
        tasks=config.tasks or None,
        test_fraction=config.test_fraction or None,
    )
    return fit(config, stream)


def fit(config: RunConfig, stream: Stream) -> Stream:
    """Check that method, network and stream go together; the stream as the method needs it."""
    torch.set_num_threads(config.threads)
    learner = _make_learner(config, stream)
    if "shuffled" in learner.needs:
        stream = stream.shuffled()
    if learner.needs & {"boundaries", "label_counts"} and not stream.boundaries:
        raise InputError(f"{config.method} needs task boundaries; {stream.name} has none")
    if "second_pass" in learner.needs:
        raise InputError(f"{config.method} passes twice over a task; this protocol passes once")
    _rehearse(learner, stream)
    return stream


def _rehearse(learner: Learner, stream: Stream) -> None:
    """One step with a learner that is thrown away.

    What does not fit (a network, an augmentation) fails here, before anything is written, and
    what PyTorch loads at its first step is not counted as training time.
    """
    if stream.boundaries:
        learner.start_task(stream.label_counts(0))
    for batch in itertools.islice(stream.batches(0, batch=2), 1):
        learner.learn(batch.x, batch.labels)
        learner.predict_indices(batch.x)


class _Writes(Protocol):
    """The settings of a run or of a comparison."""

    def write(self, folder: Path) -> None: ...


def claim_folder(out: Path, settings: _Writes) -> None:
    """Make the folder and write the settings into it; refuse one that holds something already."""
    new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        names = {file.name for file in out.iterdir() if file.suffix != TEMPORARY}
        if not names:
            settings.write(out)
            return
    except OSError as error:
        if new:
            with contextlib.suppress(OSError):
                out.rmdir()
        raise EvenstreamError(f"cannot write to {out}: {error}; choose another --out") from None
    for name, kind in ((CONFIG, "run"), (COMPARISON, "comparison")):
        if name in names:
            raise EvenstreamError(
                f"{out} already holds a {kind}; continue it with `{resume_command(out)}` "
                "or choose another --out"
            )
    raise EvenstreamError(f"{out} is not empty; choose another --out")


def resume_command(out: Path) -> str:
    """What to type to go on with a run or a comparison."""
    return f"evenstream resume {shlex.quote(str(out))}"


def _make_learner(config: RunConfig, stream: Stream | None = None) -> Learner:
    return Learner(
        config.method,
        config.network,
        memory=config.memory,
        lr=config.lr,
        batch=config.batch,
        replay_batch=config.replay_batch,
        optimizer=config.optimizer,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        seed=config.seed,
        device=config.device,
        dtype=config.dtype,
        augment=config.augment,
        mean=stream.dataset.mean if stream is not None else None,
        std=stream.dataset.std if stream is not None else None,
    )


def execute(
    config: RunConfig,
    stream: Stream,
    out: Path,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
) -> dict[str, Any]:
    """Make a run, or the rest of it, in a folder that was claimed for it; returns its metrics."""
    progress = progress or Silent()
    try:
        with exclusive(out / CONFIG):
            write_atomically(out / "env.json", json.dumps(describe_environment(), indent=1))
            run = _Run(config, stream, out, progress)
            try:
                if stop is not None:
                    return run.go(stop)
                with stop_on_signal() as signalled:
                    return run.go(signalled)
            finally:
                progress.close()
                run.close()
    except OSError as error:
        raise EvenstreamError(
            f"cannot write to {out}: {error}; free some space or fix the permissions, then "
            f"`{resume_command(out)}`"
        ) from error


class _Run:
    """The loop over tasks and batches."""

    def __init__(self, config: RunConfig, stream: Stream, out: Path, progress: Progress) -> None:
        self.config, self.stream, self.out, self.progress = config, stream, out, progress
        self.checkpoints = out / CHECKPOINTS
        self.at = Position()
        if has_checkpoint(self.checkpoints):
            saved = self._read_checkpoint()
            tidy(self.checkpoints)
            self.learner = Learner.from_state(saved["learner"], device=config.device)
            self.at = Position(**saved["position"])
        else:
            self.learner = _make_learner(config, stream)
        cut_back(out, self.learner.step, self.at.task)
        self.events = EventLog(out)
        self._flushed = time.monotonic()

    def close(self) -> None:
        self.events.close()

    def _read_checkpoint(self) -> dict[str, Any]:
        try:
            saved = read_checkpoint(self.checkpoints)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}. To make the run again from its start, remove {self.checkpoints} and "
                f"`{resume_command(self.out)}`"
            ) from None
        if saved.get("kind") != "run":
            raise CheckpointError(f"{self.checkpoints} does not hold a run")
        before: Mapping[str, Any] = saved.get("config", {})
        for name, value in asdict(self.config).items():
            if name not in MAY_CHANGE and before.get(name, value) != value:
                raise CheckpointError(
                    f"{self.out / CONFIG} was changed: {name} was {before[name]!r} when the run "
                    f"was saved and is {value!r} now; put it back or start a new run"
                )
        return saved

    def go(self, stop: StopFlag) -> dict[str, Any]:
        steps = [self.stream.steps(task, self.config.batch) for task in range(len(self.stream))]
        self.progress.start(self.config.method, self.config.seed, sum(steps), self.learner.step)
        while self.at.task < len(self.stream):
            self._train_task(stop)
            self._evaluate()
            self.at.task, self.at.batch = self.at.task + 1, 0
            self._checkpoint()
            self._write_metrics()
        found = self._write_metrics()
        self.progress.finish(found)
        return found

    def _train_task(self, stop: StopFlag) -> None:
        task = self.at.task
        if not self.learner.in_task and self.stream.boundaries:
            self.learner.start_task(self.stream.label_counts(task))
        for batch in self.stream.batches(task, self.config.batch, self.at.batch):
            began = time.perf_counter()
            result = self.learner.learn(batch.x, batch.labels)
            self.at.train_seconds += time.perf_counter() - began
            self.at.batch += 1
            self.at.samples += len(batch.labels)
            self.at.single_class_steps += result.single_class
            self.events.write(
                {
                    "step": result.step,
                    "task": task,
                    "loss": result.loss,
                    "accuracy": result.accuracy,
                    "rows": result.rows,
                    "seconds": round(self.at.train_seconds, 4),
                }
            )
            self.progress.step(result, len(batch.labels))
            stopping = stop.is_set()
            if stopping or self.learner.step % self.config.checkpoint_every == 0:
                self._checkpoint()
            elif time.monotonic() - self._flushed > FLUSH_SECONDS:
                self._flush()
            if stopping:
                self._write_metrics()
                raise Interrupted(
                    f"stopped at step {self.learner.step} and saved; "
                    f"go on with `{resume_command(self.out)}`"
                )
        if self.learner.in_task:
            self.learner.end_task()

    def _evaluate(self) -> None:
        """Accuracy on every task so far; after the last one, where the predictions went."""
        began = time.perf_counter()
        position = {label: index for index, label in enumerate(map(_typed, self.learner.labels))}
        row: list[float | None] = [None] * len(self.stream)
        predicted = []
        for task in range(self.at.task + 1):
            x, labels = self.stream.test_set(task)
            if not len(x):
                continue
            guess = self.learner.predict_indices(x).numpy()
            truth = np.array([position.get(_typed(label), -2) for label in labels])  # never -1
            row[task] = float((guess == truth).mean() * 100)
            predicted.append(guess)
        self.at.matrix.append(row)
        if self.at.task == len(self.stream) - 1 and predicted:
            self.at.prediction_share = self._share(np.concatenate(predicted))
        self.at.eval_seconds += time.perf_counter() - began
        self.at.seconds_after_task.append(self.at.train_seconds)
        average = metrics.average_accuracies(self.at.matrix)[-1]
        self.events.write(
            {
                "step": self.learner.step,
                "task": self.at.task,
                "event": EVALUATED,
                "accuracies": row[: self.at.task + 1],
            }
        )
        self.progress.evaluated(self.at.task, average)

    def _share(self, predicted: np.ndarray[Any, Any]) -> list[float | None]:
        """Share of test predictions that fall on each task's classes (Figure 1, right)."""
        classes = self.stream.dataset.classes
        task_of = {
            _typed(classes[index]): number
            for number, task in enumerate(self.stream.tasks)
            for index in task.classes
        }
        tasks = np.array([task_of[_typed(label)] for label in self.learner.labels])
        return metrics.prediction_share(tasks[predicted], len(self.stream))

    def _flush(self, *, sync: bool = False) -> None:
        self.events.flush(sync=sync)
        self._flushed = time.monotonic()

    def _checkpoint(self) -> None:
        self._flush(sync=True)
        tree = {
            "kind": "run",
            "config": asdict(self.config),
            "learner": self.learner.state(),
            "position": vars(self.at),
        }
        write_checkpoint(self.checkpoints, self.learner.step, tree)

    def _write_metrics(self) -> dict[str, Any]:
        matrix, at, n_tasks = self.at.matrix, self.at, len(self.stream)
        finished = len(matrix) == n_tasks
        sizes = np.array([len(task.test) for task in self.stream.tasks])
        found = {
            "format": 1,
            "method": self.config.method,
            "stream": self.config.stream,
            "seed": self.config.seed,
            "status": "finished" if finished else "unfinished",
            "tasks": self.stream.class_names(),
            "accuracy_matrix": matrix,
            "average_accuracy": metrics.average_accuracies(matrix) if matrix else [],
            "A_T": metrics.average_accuracy(matrix) if finished else None,
            "F_T": metrics.forgetting(matrix) if finished else None,
            "F_T_mammoth": metrics.forgetting_mammoth(matrix) if finished else None,
            "prediction_share": at.prediction_share or None,
            "true_share": (sizes / sizes.sum()).tolist(),
            "train_seconds_after_task": at.seconds_after_task,
            "train_seconds": at.train_seconds,
            "eval_seconds": at.eval_seconds,
            "steps": self.learner.step,
            "samples": at.samples,
            "samples_per_second": at.samples / at.train_seconds if at.train_seconds else None,
            "single_class_steps": at.single_class_steps,
            "device": self.learner.options.device,
            "dtype": self.learner.options.dtype,
            "threads": self.config.threads,
        }
        write_atomically(self.out / METRICS, json.dumps(found, indent=1))
        return found


def _typed(label: Any) -> tuple[str, Any]:
    """A key that keeps `True` and `1` apart."""
    return type(label).__name__, label
