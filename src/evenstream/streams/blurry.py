"""Blurry streams: some classes belong to one task, the others appear in all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from evenstream.data import Dataset
from evenstream.data.samples import Indices
from evenstream.errors import InputError
from evenstream.streams.scenario import ClassGroups, Layout, task_of
from evenstream.streams.stream import stream_generator


@dataclass(frozen=True, kw_only=True)
class Blurry(ClassGroups):
    """Some classes arrive in a single task; the rest in all tasks, but mostly in one of them.

    A task has all samples of its disjoint classes, most samples of its head classes, and `minor`
    samples of every other blurry class. A class is tested in the task where it is disjoint or head,
    so the tests use each sample once too.
    """

    eval_every: ClassVar[int] = 5

    disjoint: int = 50
    """Percentage of classes that arrive in one task only; the paper's N."""
    minor: int = 10
    """Samples of a blurry class in each task where it is not a head class; the paper's M."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.disjoint <= 100:
            raise InputError(f"disjoint is a percentage, 0 to 100, got {self.disjoint}")
        if self.minor < 0:
            raise InputError(f"minor must be 0 or more, got {self.minor}")

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """The first classes in order are disjoint, the rest blurry, as in the public code."""
        order = self.ordered(np.arange(dataset.n_classes), seed)
        disjoint, blurry = np.split(order, [dataset.n_classes * self.disjoint // 100])
        n_tasks = self.n_tasks(dataset, order)
        self._check(dataset, disjoint, blurry, n_tasks)
        own, heads = _in_turn(disjoint, n_tasks), _in_turn(blurry, n_tasks)
        whole = [task_of(dataset, np.concatenate(pair)) for pair in zip(own, heads, strict=True)]
        arrives = np.empty(len(dataset.y_train), dtype=np.int64)
        for number, task in enumerate(whole):
            arrives[task.train] = number
        self._spread(dataset, heads, arrives, seed)
        tasks = [
            replace(task, train=np.flatnonzero(arrives == number))
            for number, task in enumerate(whole)
        ]
        return Layout(dataset, tasks)

    def _check(self, dataset: Dataset, disjoint: Indices, blurry: Indices, n_tasks: int) -> None:
        most = max(len(disjoint), len(blurry))
        if not 1 <= n_tasks <= most:
            raise InputError(
                f"{dataset.name}: {len(disjoint)} disjoint and {len(blurry)} blurry classes make "
                f"1 to {most} tasks, got {n_tasks}"
            )
        sizes = np.bincount(dataset.y_train, minlength=dataset.n_classes)
        smallest = min(blurry.tolist(), key=lambda index: sizes[index], default=None)
        if smallest is not None and sizes[smallest] < self.minor * n_tasks:
            raise InputError(
                f"{dataset.name}: class {dataset.label_names[smallest]} has {sizes[smallest]} "
                f"training samples, too few for {n_tasks} tasks with {self.minor} in each; "
                f"minor can be at most {sizes[smallest] // n_tasks}"
            )

    def _spread(self, dataset: Dataset, heads: list[Indices], arrives: Indices, seed: int) -> None:
        """Send `minor` samples of each head class, drawn by the seed, to each other task."""
        draw = stream_generator(seed, "blurry")
        for home, head in enumerate(heads):
            away = np.repeat(np.delete(np.arange(len(heads)), home), self.minor)
            for index in head.tolist():
                rows = draw.permutation(np.flatnonzero(dataset.y_train == index))
                arrives[rows[: len(away)]] = away


def _in_turn(classes: Indices, n_tasks: int) -> list[Indices]:
    """Equally many classes per task; the last one also takes the remainder."""
    each = len(classes) // n_tasks
    return np.split(classes, [each * number for number in range(1, n_tasks)])
