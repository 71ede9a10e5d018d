"""What a stream is: training samples in the order of a scenario, cut into tasks, and test sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenstream.data import Dataset

if TYPE_CHECKING:
    from evenstream.learner.labels import Label

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """The defaults that belong to a stream; the command line's flags override them."""

    network: str = "mlp"
    batch: int = 32
    replay_batch: int = 32
    memory: int = 1000
    lr: float = 0.03
    augment: str = "none"


@dataclass(frozen=True, eq=False)
class Task:
    """One part of the stream: which samples it trains on and which it is tested on."""

    classes: tuple[int, ...]
    """Class indices of the data set that belong to this task's test set."""
    train: Indices
    test: Indices


class Stream:
    """Tasks over a data set. Order inside a task depends on (seed, task) alone.

    A position in the stream is (task, batch), so a resumed run needs nothing else to go on.
    """

    boundaries = True
    """Whether the learner is told where tasks begin and end."""

    def __init__(
        self, name: str, dataset: Dataset, tasks: list[Task], protocol: Protocol, seed: int
    ) -> None:
        self.name, self.dataset, self.tasks = name, dataset, tasks
        self.protocol, self.seed = protocol, seed

    def __len__(self) -> int:
        return len(self.tasks)

    def steps(self, task: int, batch: int) -> int:
        """Batches in a task; a short last one counts."""
        return -(-len(self.tasks[task].train) // batch)

    def batches(
        self, task: int, batch: int, start: int = 0
    ) -> Iterator[tuple[NDArray[Any], list[Label]]]:
        """Inputs and labels of one task, from batch number `start` on."""
        train = self.tasks[task].train
        order = train[_generator(self.seed, "order", task).permutation(len(train))]
        for first in range(start * batch, len(order), batch):
            rows = order[first : first + batch]
            yield self.dataset.x_train[rows], self._labels(self.dataset.y_train[rows])

    def label_counts(self, task: int) -> dict[Label, int]:
        """How often each label occurs in a task's training data (an oracle for ablations)."""
        return dict(Counter(self._labels(self.dataset.y_train[self.tasks[task].train])))

    def test_set(self, task: int) -> tuple[NDArray[Any], list[Label]]:
        """Test inputs and labels of one task."""
        test = self.tasks[task].test
        return self.dataset.x_test[test], self._labels(self.dataset.y_test[test])

    def class_names(self) -> list[list[str]]:
        """Names of the classes of each task."""
        names = self.dataset.label_names
        return [[names[index] for index in task.classes] for task in self.tasks]

    def shuffled(self) -> Stream:
        """The same samples in random order, cut into as many parts; the tests stay."""
        pooled = np.concatenate([task.train for task in self.tasks])
        pooled = pooled[_generator(self.seed, "shuffle").permutation(len(pooled))]
        parts = np.split(pooled, np.cumsum([len(task.train) for task in self.tasks])[:-1])
        tasks = [replace(t, train=part) for t, part in zip(self.tasks, parts, strict=True)]
        return Stream(self.name, self.dataset, tasks, self.protocol, self.seed)

    def _labels(self, indices: Indices) -> list[Label]:
        classes = self.dataset.classes
        return [classes[index] for index in indices.tolist()]


def _generator(seed: int, *names: str | int) -> np.random.Generator:
    from evenstream.learner.randomness import derive_seed

    return np.random.default_rng(derive_seed(seed, "stream", *names))
