"""Data sets whose samples can be followed through a stream."""

from __future__ import annotations

import numpy as np

from evenstream.data import CoarseLabels, Dataset
from evenstream.streams import Stream

SUPERCLASS_OF = [
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
]  # fmt: skip
"""CIFAR-100's superclass of each class."""


def task_tests(stream, task):
    """Test inputs and labels of one task, all at once."""
    rows = stream.tasks[task].test
    (read,) = stream.test_batches(rows, len(rows))
    return read.x, [stream.dataset.classes[index] for index in stream.dataset.y_test[read.rows]]


def numbered(counts, test_counts=None, classes=None, superclasses=None):
    """A table whose inputs are the sample's own number, so that it can be followed."""

    def part(counts):
        y = np.repeat(np.arange(len(counts)), counts)
        x = np.arange(len(y), dtype=np.float32)[:, np.newaxis]
        shuffle = np.random.default_rng(0).permutation(len(y))
        return x[shuffle], y[shuffle]

    x_train, y_train = part(counts)
    x_test, y_test = part(counts if test_counts is None else test_counts)
    coarse = None
    if superclasses is not None:
        above = np.array(superclasses)
        names = [f"super {number}" for number in range(above.max() + 1)]
        coarse = CoarseLabels(above[y_train], above[y_test], names)
    names = classes or list(range(len(counts)))
    return Dataset("numbered", x_train, y_train, x_test, y_test, classes=names, coarse=coarse)


def cifar100(per_class=500, per_test_class=100):
    """CIFAR-100's labels, fine and coarse."""
    return numbered([per_class] * 100, [per_test_class] * 100, superclasses=SUPERCLASS_OF)


def numbered_images(counts, side=4):
    """Images whose pixels are all different, so that a turned one can be told."""
    y = np.repeat(np.arange(len(counts)), counts)
    draw = np.random.default_rng(1)
    x = np.stack([draw.permutation(side * side).reshape(1, side, side) for _ in y])
    x = x.astype(np.uint8)
    return Dataset("images", x, y, x.copy(), y, classes=list(range(len(counts))))


def numbers(stream: Stream, task: int, batch=32, start: int = 0) -> list[int]:
    """The numbers of the samples of a task, in the order in which they arrive."""
    parts = [step.x[:, 0] for step in stream.batches(task, batch, start)]
    return np.concatenate(parts).astype(int).tolist() if parts else []


def train_sizes(stream: Stream) -> list[int]:
    return [len(task.train) for task in stream.tasks]


def counts(stream: Stream, task: int) -> np.ndarray:
    """Training samples of each class in a task."""
    labels = stream.dataset.y_train[stream.tasks[task].train]
    return np.bincount(labels, minlength=stream.dataset.n_classes)


def used_once(stream: Stream) -> bool:
    """Whether every training sample is in exactly one task."""
    used = np.concatenate([task.train for task in stream.tasks])
    return sorted(used.tolist()) == list(range(len(stream.dataset.y_train)))
