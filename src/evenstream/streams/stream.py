"""Streams: training samples in the order of a scenario, divided into tasks with test sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenstream.data import Dataset
from evenstream.data.reading import read_in_order
from evenstream.data.samples import Indices, Read
from evenstream.errors import DataError
from evenstream.options import Protocol as Protocol

if TYPE_CHECKING:
    from evenstream.core.labels import Label


@dataclass(frozen=True, eq=False)
class Task:
    """One part of the stream: which samples it trains on and which it is tested on."""

    classes: tuple[int, ...]
    """Class indices of the data set that belong to this task's test set."""
    train: Indices
    test: Indices


@dataclass(frozen=True, eq=False)
class Domains:
    """The domain of each sample, in streams where the appearance of a class changes too."""

    train: Indices
    test: Indices
    names: list[str]


@dataclass(frozen=True, eq=False)
class Batch:
    """What arrives in one step."""

    x: NDArray[Any]
    labels: list[Label]
    skipped: tuple[str, ...] = ()
    """Samples that could not be read, with the reason; a batch may end up with no rows at all."""


class Stream:
    """Tasks over a data set. The order within a task depends only on (seed, task).

    A position in the stream is (task, batch), which is all that a resumed run needs.

    Args:
        name: its name for users.
        dataset: the samples; its classes are what the learner learns.
        tasks: the parts, in order.
        protocol: defaults for runs on this stream.
        seed: seed for everything random in it.
        boundaries: whether the learner is told where tasks begin and end. If not, tasks only
            determine when to evaluate and on what: batches run across their ends, so that not even
            a short batch gives them away.
        shuffle: draw the order within each task; otherwise `Task.train` is the order.
        drop_last: drop the short batch at the end of a task.
        domains: the domain of each sample, if the scenario has domains.
    """

    def __init__(
        self,
        name: str,
        dataset: Dataset,
        tasks: list[Task],
        protocol: Protocol,
        seed: int,
        *,
        boundaries: bool = True,
        shuffle: bool = True,
        drop_last: bool = False,
        domains: Domains | None = None,
    ) -> None:
        self.name, self.dataset, self.tasks = name, dataset, tasks
        self.protocol, self.seed = protocol, seed
        self.boundaries, self.shuffle, self.drop_last = boundaries, shuffle, drop_last
        self.domains = domains

    def __len__(self) -> int:
        return len(self.tasks)

    def steps(self, task: int, batch: int | Sequence[int], held_out: int = 0) -> int:
        """Number of batches in a task. `batch` is their size, or one size for each task."""
        first, last, size = self._plan(batch)[task]
        samples = last - first - held_out
        return samples // size if self.drop_last else -(-samples // size)

    def count(self, tasks: int, batch: int) -> tuple[int, int]:
        """Numbers of samples and of batches in the first `tasks`, with batches of this size."""
        samples, steps = 0, [self.steps(task, batch) for task in range(tasks)]
        for (first, last, size), found in zip(self._plan(batch), steps, strict=False):
            samples += min(found * size, last - first)
        return samples, sum(steps)

    def batches(
        self,
        task: int,
        batch: int | Sequence[int],
        start: int = 0,
        *,
        epoch: int = 0,
        held_out: Sequence[int] = (),
    ) -> Iterator[Batch]:
        """Inputs and labels of one task, from batch number `start` on.

        Each epoch has its own order; `held_out` are positions in `Task.train` to leave out.
        """
        first, last, size = self._plan(batch)[task]
        order = self._order(task, epoch, held_out) if self.boundaries else self.order()[first:last]
        steps = range(start, self.steps(task, batch, len(held_out)))
        wanted = (order[step * size : (step + 1) * size] for step in steps)
        for read in read_in_order(self.dataset.x_train, wanted):
            yield Batch(read.x, self._labels(self.dataset.y_train[read.rows]), read.skipped)

    def order(self) -> Indices:
        """Positions of all training samples in the data set, in order of arrival."""
        return np.concatenate([self._order(task) for task in range(len(self))])

    def task_data(self, task: int) -> tuple[NDArray[Any], list[Label]]:
        """All training inputs and labels of one task at once, in the order of `Task.train`."""
        (read,) = read_in_order(self.dataset.x_train, [self.tasks[task].train])
        if read.skipped:
            raise DataError(f"all samples of a task are needed, but {read.skipped[0]}")
        return read.x, self._labels(self.dataset.y_train[read.rows])

    def largest_task_bytes(self) -> int:
        """Memory needed for all inputs of the largest task."""
        x = self.dataset.x_train
        sample = int(np.prod(x.shape[1:])) * np.dtype(x.dtype).itemsize
        return sample * max(len(task.train) for task in self.tasks)

    def streamed_classes(self) -> set[int]:
        """Class indices that occur in some task; others may be set aside."""
        return {index for task in self.tasks for index in task.classes}

    def label_counts(self, task: int) -> dict[Label, int]:
        """How often each label occurs in a task's training data (an oracle for ablations)."""
        return dict(Counter(self._labels(self.dataset.y_train[self.tasks[task].train])))

    def test_batches(self, rows: Indices, size: int = 1000) -> Iterator[Read]:
        """Test samples by their positions in the data set, a few at a time."""
        wanted = (rows[first : first + size] for first in range(0, len(rows), size))
        return read_in_order(self.dataset.x_test, wanted)

    def class_names(self) -> list[list[str]]:
        """Names of the classes of each task."""
        names = self.dataset.label_names
        return [[names[index] for index in task.classes] for task in self.tasks]

    def shuffled(self) -> Stream:
        """The same samples in random order, divided into as many parts; the test sets stay."""
        pooled = np.concatenate([task.train for task in self.tasks])
        pooled = pooled[stream_generator(self.seed, "shuffle").permutation(len(pooled))]
        parts = np.split(pooled, np.cumsum([len(task.train) for task in self.tasks])[:-1])
        tasks = [replace(t, train=part) for t, part in zip(self.tasks, parts, strict=True)]
        return Stream(
            self.name,
            self.dataset,
            tasks,
            self.protocol,
            self.seed,
            boundaries=self.boundaries,
            drop_last=self.drop_last,
            domains=self.domains,
        )

    def _order(self, task: int, epoch: int = 0, held_out: Sequence[int] = ()) -> Indices:
        train = np.delete(self.tasks[task].train, held_out)
        again = [epoch] if epoch else []
        if not self.shuffle and not again:
            return train
        generator = stream_generator(self.seed, "order", task, *again)
        return train[generator.permutation(len(train))]

    def _plan(self, batch: int | Sequence[int]) -> list[tuple[int, int, int]]:
        """First sample, last sample (exclusive) and batch size of each task."""
        sizes = [batch] * len(self) if isinstance(batch, int) else list(batch)
        ends = np.cumsum([len(task.train) for task in self.tasks]).tolist()
        if self.boundaries:
            return [(0, len(t.train), size) for t, size in zip(self.tasks, sizes, strict=True)]
        plan, first = [], 0
        for end, size in zip(ends, sizes, strict=True):
            steps = max(-(-(end - first) // size), 0)
            last = min(first + steps * size, ends[-1])
            plan.append((first, last, size))
            first = last
        return plan

    def _labels(self, indices: Indices) -> list[Label]:
        classes = self.dataset.classes
        return [classes[index] for index in indices.tolist()]


def stream_generator(seed: int, *names: str | int) -> np.random.Generator:
    """The random numbers of one part of a stream, independent of all others."""
    from evenstream.core.randomness import derive_seed

    return np.random.default_rng(derive_seed(seed, "stream", *names))
