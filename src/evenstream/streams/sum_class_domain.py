"""Sum-Class-Domain streams: new classes and new domains of known classes arrive together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenstream.data import Dataset
from evenstream.data.samples import Indices
from evenstream.streams.scenario import ClassGroups, Layout, rows_of
from evenstream.streams.stream import Task
from evenstream.streams.superclasses import by_superclass, coarse_labels


@dataclass(frozen=True, kw_only=True)
class SumClassDomain(ClassGroups):
    """Groups of subclasses arrive one after another; the superclass is to be predicted."""

    needs_superclasses: ClassVar[bool] = True

    tasks: int = 0
    """Number of groups of subclasses; 0 means as many as there are superclasses."""

    def n_tasks(self, dataset: Dataset, classes: Indices) -> int:
        """As set, or the number of superclasses."""
        return self.tasks or len(coarse_labels(dataset).names)

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """One task for each group of subclasses, labelled by their superclasses."""
        relabelled, domains = by_superclass(dataset)

        def task(group: Indices) -> Task:
            train, test = rows_of(dataset.y_train, group), rows_of(dataset.y_test, group)
            found = np.union1d(relabelled.y_train[train], relabelled.y_test[test])
            return Task(tuple(found.tolist()), train, test)

        tasks = [task(group) for group in self.groups(dataset, seed)]
        return Layout(relabelled, tasks, domains)
