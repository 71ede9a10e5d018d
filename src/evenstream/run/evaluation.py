"""Measuring a learner on the test sets of a stream, without changing it.

Test samples are read and predicted in parts, so that the memory needed does not grow with the test
set. The argmax is over the classes seen so far. Samples that cannot be read are left out and
reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenstream import metrics
from evenstream.core.outputs import PREDICT_BATCH
from evenstream.data.samples import Indices
from evenstream.learner.learner import Learner
from evenstream.streams import Stream
from evenstream.streams.stream import stream_generator

READ_BYTES = 64 * 2**20
"""Bytes of a test set in memory at a time, unless one batch is larger."""
NOTHING = -1
"""The prediction of a learner that has seen no class."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """A learner's predictions on test samples; classes are indices of the data set."""

    rows: Indices
    truth: Indices
    predicted: Indices
    confidence: NDArray[np.float64]
    """The highest probability given to any class."""
    skipped: list[str]

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Which of them are right."""
        right: NDArray[np.bool_] = self.predicted == self.truth
        return right

    def of(self, rows: Indices) -> Predictions:
        """The predictions on some of the samples."""
        chosen = np.isin(self.rows, rows)
        return Predictions(
            self.rows[chosen],
            self.truth[chosen],
            self.predicted[chosen],
            self.confidence[chosen],
            self.skipped,
        )


@dataclass(frozen=True)
class TaskEnd:
    """The measurements at the end of a task."""

    accuracies: list[float | None]
    """Accuracy on each measured test set; None for one without samples."""
    balanced_over_tasks: float | None
    balanced_over_classes: float | None
    skipped: list[str]
    final: dict[str, Any] = field(default_factory=dict)
    """What is measured once, after the last task."""


class Evaluation:
    """Evaluations of one run.

    Args:
        stream: the stream as defined, before any shuffling for a method.
        every: steps between online evaluations; 0 for none.
        images: test samples of online evaluations, balanced over classes; 0 for all.
        future: also test on future tasks.
    """

    def __init__(self, stream: Stream, *, every: int, images: int, future: bool) -> None:
        self.stream, self.every, self.future = stream, every, future
        x = stream.dataset.x_test
        batch_bytes = PREDICT_BATCH * math.prod(x.shape[1:]) * x.dtype.itemsize
        self._at_once = PREDICT_BATCH * max(1, READ_BYTES // batch_bytes)
        self._all = _union([task.test for task in stream.tasks])
        self.online_rows = self._all
        if every and 0 < images < len(self._all):
            self.online_rows = balanced_subset(self._all, stream.dataset.y_test[self._all], images)
        self._homes = metrics.home_tasks(
            [
                np.bincount(stream.dataset.y_train[task.train], minlength=stream.dataset.n_classes)
                for task in stream.tasks
            ]
        )

    def after_task(self, learner: Learner, task: int) -> TaskEnd:
        """Accuracy on all tasks so far (or on all); after the last one, everything else."""
        tasks = self.stream.tasks
        measured = tasks if self.future else tasks[: task + 1]
        found = self._predict(learner, _union([part.test for part in measured]))
        so_far = found.of(_union([part.test for part in tasks[: task + 1]]))
        parts = [found.of(part.test) for part in measured]
        balanced = [
            metrics.class_balanced_accuracy(part.truth, part.predicted)
            for part in parts[: task + 1]
        ]
        known = [value for value in balanced if value is not None]
        return TaskEnd(
            accuracies=[_percent(part.correct) for part in parts],
            balanced_over_tasks=sum(known) / len(known) if known else None,
            balanced_over_classes=metrics.class_balanced_accuracy(so_far.truth, so_far.predicted),
            skipped=found.skipped,
            final=self._final(found) if task == len(tasks) - 1 else {},
        )

    def online(self, learner: Learner) -> float | None:
        """Accuracy on the test samples of all classes observed so far (the f of A_AUC)."""
        y = self.stream.dataset.y_test[self.online_rows]
        observed = np.isin(y, self._classes_of(learner))
        return _percent(self._predict(learner, self.online_rows[observed]).correct)

    def describe_online(self) -> dict[str, Any]:
        """Which test samples the online accuracy is measured on, and how often."""
        what = "images" if self.stream.dataset.is_image else "samples"
        n, total = len(self.online_rows), len(self._all)
        which = (
            f"all {n:,}" if n == total else f"a fixed class-balanced subset of {n:,} of {total:,}"
        )
        return {
            "every": self.every,
            "test_samples": n,
            "of": total,
            "statement": f"on {which} test {what}, every {self.every} steps",
        }

    def true_share(self) -> list[float | None] | None:
        """The share of test samples that belong to each task."""
        return self._share(self.stream.dataset.y_test[self._all])

    def untrained(self, learner: Learner) -> list[float | None]:
        """Accuracy on each task of a learner that has not learned anything (for FWT).

        Its head has a row for every class of the stream.
        """
        first = next(read.x for read in self.stream.test_batches(self._all, 1) if len(read.rows))
        learner.prepare(first)
        known = sorted(self.stream.streamed_classes())
        learner.add_labels([self.stream.dataset.classes[index] for index in known])
        found = self._predict(learner, self._all)
        return [_percent(found.of(task.test).correct) for task in self.stream.tasks]

    def _final(self, found: Predictions) -> dict[str, Any]:
        share, truth = self._share(found.predicted), self._share(found.truth)
        n_classes = self.stream.dataset.n_classes
        return {
            "class_recall": metrics.class_recalls(found.truth, found.predicted, n_classes),
            "ECE": metrics.expected_calibration_error(found.confidence, found.correct),
            "prediction_share": share,
            "recency_bias": metrics.recency_bias(share, truth) if share and truth else None,
        }

    def _share(self, classes: Indices) -> list[float | None] | None:
        """The share of samples or predictions that falls on the classes of each task."""
        if self._homes is None:
            return None
        homes = np.array(self._homes)[classes[classes != NOTHING]]
        return metrics.prediction_share(homes[homes != metrics.NO_HOME], len(self.stream))

    def _predict(self, learner: Learner, rows: Indices) -> Predictions:
        """The learner's predictions on test samples, read a few at a time."""
        classes = self._classes_of(learner)
        kept, predicted, confidence = [rows[:0]], [rows[:0]], [np.zeros(0)]
        skipped: list[str] = []
        for read in self.stream.test_batches(rows, self._at_once):
            skipped += read.skipped
            if not len(read.rows):
                continue
            kept.append(read.rows)
            if len(classes):
                scores = torch.from_numpy(learner.scores(read.x))
                predicted.append(classes[scores.argmax(1).numpy()])
                confidence.append(scores.softmax(1).amax(1).double().numpy())
            else:
                predicted.append(np.full(len(read.rows), NOTHING))
                confidence.append(np.zeros(len(read.rows)))
        found = np.concatenate(kept)
        return Predictions(
            found,
            self.stream.dataset.y_test[found],
            np.concatenate(predicted),
            np.concatenate(confidence),
            skipped,
        )

    def _classes_of(self, learner: Learner) -> Indices:
        """The data set's class index behind each label the learner has seen."""
        found = np.zeros(len(learner.label_map), dtype=np.int64)
        for index, label in enumerate(self.stream.dataset.classes):
            position = learner.label_map.get(label)
            if position is not None:
                found[position] = index
        return found


def balanced_subset(rows: Indices, y: Indices, size: int) -> Indices:
    """Choose `size` test samples, with equally many per class as far as possible.

    At least one of each class. The choice depends on the test set alone: all methods of a
    comparison are measured on the same samples, so their differences are paired.
    """
    size = max(size, len(np.unique(y)))
    order = stream_generator(0, "online-evaluation").permutation(len(rows))
    by_class = np.argsort(y[order], kind="stable")
    turn = np.empty(len(rows), dtype=np.int64)
    turn[by_class] = np.arange(len(rows))
    turn -= np.searchsorted(y[order][by_class], y[order])  # 0 for the first of a class, 1, ...
    chosen = np.argsort(turn, kind="stable")[:size]
    return np.sort(rows[order[chosen]])


def _union(parts: list[Indices]) -> Indices:
    return np.unique(np.concatenate(parts))


def _percent(correct: NDArray[np.bool_]) -> float | None:
    return float(correct.mean() * 100) if len(correct) else None
