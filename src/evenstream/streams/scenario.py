"""The interface of scenarios, which turn a data set and a seed into the tasks of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from evenstream.bounds import check_options
from evenstream.data import Dataset
from evenstream.data.samples import Indices
from evenstream.errors import InputError, calling, shown
from evenstream.streams.stream import Domains, Protocol, Stream, Task, stream_generator
from evenstream.streams.validation import with_validation

ClassOrder = Literal["label", "seed"]


@dataclass(frozen=True, eq=False)
class Layout:
    """What a scenario returns for a data set."""

    dataset: Dataset
    """The samples; their labels may differ from those of the given data set."""
    tasks: list[Task]
    domains: Domains | None = None
    shuffle: bool = True
    """If False, the order of `Task.train` is the order of arrival."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Base of all scenarios. Typed fields of a subclass are its options."""

    eval_every: ClassVar[int] = 0
    """Default steps between online evaluations for this kind of stream."""

    needs_superclasses: ClassVar[bool] = False
    """Whether it needs data with two levels of labels."""

    boundaries: bool = True
    """Whether the learner is told where tasks begin and end; if not, batches run across the
    ends."""
    fraction: float = 1.0
    """Share of the training samples that arrive, drawn by the seed from each class of each task."""

    validation: int = 0
    """Percentage of the training samples, drawn by the seed from each class, that never arrive and
    replace the test samples: for choosing settings without looking at the test set."""

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 <= self.validation <= 99:
            raise InputError(f"validation must be a percentage of 0 to 99, got {self.validation}")
        if not 0 < self.fraction <= 1:
            raise InputError(f"fraction must lie above 0 and not above 1, got {self.fraction}")

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """Divide a data set into tasks. The one method a scenario must implement."""
        raise NotImplementedError

    def protocol(self, usual: Protocol) -> Protocol:
        """The defaults of a run in this scenario, given the usual ones for the data set."""
        return replace(usual, eval_every=self.eval_every)

    def stream(
        self,
        dataset: Dataset,
        seed: int = 0,
        *,
        name: str | None = None,
        protocol: Protocol | None = None,
        drop_last: bool = False,
    ) -> Stream:
        """A stream over a data set; see `Stream` for the other arguments."""
        if self.validation:
            dataset = with_validation(dataset, self.validation, seed)
        layout = self._part(self._arranged(dataset, seed), seed)
        return Stream(
            name or dataset.name,
            layout.dataset,
            layout.tasks,
            protocol or self.protocol(Protocol()),
            seed,
            boundaries=self.boundaries,
            shuffle=layout.shuffle,
            drop_last=drop_last,
            domains=layout.domains,
        )

    def _arranged(self, dataset: Dataset, seed: int) -> Layout:
        what = f"{type(self).__name__}.arrange"
        with calling(what):
            layout = self.arrange(dataset, seed)
        if not isinstance(layout, Layout):
            raise InputError(f"{what} must return a Layout, but returned {shown(layout)}")
        return layout

    def _part(self, layout: Layout, seed: int) -> Layout:
        if self.fraction == 1:
            return layout
        draw, y = stream_generator(seed, "fraction"), layout.dataset.y_train
        kept = np.zeros(len(y), dtype=bool)
        for task in layout.tasks:
            for index in np.unique(y[task.train]):
                rows = draw.permutation(task.train[y[task.train] == index])
                kept[rows[: max(1, round(self.fraction * len(rows)))]] = True
        return thinned(layout, kept)


@dataclass(frozen=True, kw_only=True)
class ClassGroups(Scenario):
    """Base of scenarios that divide the classes into groups, one per task."""

    tasks: int = 0
    """Number of groups of classes; 0 means one for every two classes, at most ten."""
    class_order: ClassOrder = "label"
    """Order in which the classes arrive: that of their labels, or one drawn from the seed."""

    def n_tasks(self, dataset: Dataset, classes: Indices) -> int:
        """The number of groups: as set, or the default for these classes."""
        return self.tasks or max(1, min(10, len(classes) // 2))

    def ordered(self, classes: Indices, seed: int) -> Indices:
        """Classes in order of arrival."""
        if self.class_order == "label":
            return classes
        return stream_generator(seed, "classes").permutation(classes)

    def groups(self, dataset: Dataset, seed: int, classes: Indices | None = None) -> list[Indices]:
        """Groups of classes (default: all), equal in size or differing by one."""
        classes = np.arange(dataset.n_classes) if classes is None else classes
        n_tasks = self.n_tasks(dataset, classes)
        if not 1 <= n_tasks <= len(classes):
            raise InputError(
                f"{dataset.name}: tasks must lie between 1 and the number of classes, "
                f"{len(classes)}, got {n_tasks}"
            )
        return np.array_split(self.ordered(classes, seed), n_tasks)


def task_of(dataset: Dataset, group: Indices) -> Task:
    """A task with all samples of a group of classes."""
    return Task(
        tuple(group.tolist()), rows_of(dataset.y_train, group), rows_of(dataset.y_test, group)
    )


def rows_of(y: Indices, group: Indices) -> Indices:
    """Positions of the samples whose class is in a group."""
    return np.flatnonzero(np.isin(y, group))


def thinned(layout: Layout, kept: NDArray[np.bool_]) -> Layout:
    """The same tasks with only some of the training samples."""
    tasks = [replace(task, train=task.train[kept[task.train]]) for task in layout.tasks]
    return replace(layout, tasks=tasks)


def deal(y: Indices, parts: int, draw: np.random.Generator) -> Indices:
    """Assign each sample to a part, so that every class is spread evenly over the parts."""
    part = np.empty(len(y), dtype=np.int64)
    for index in np.unique(y):
        rows = draw.permutation(np.flatnonzero(y == index))
        part[rows] = np.arange(len(rows)) % parts
    return part
