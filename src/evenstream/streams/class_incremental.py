"""Class-incremental streams: the classes are divided into groups that arrive one after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenstream.data import Dataset
from evenstream.data.samples import Indices
from evenstream.errors import InputError
from evenstream.streams.scenario import ClassGroups, Layout, task_of
from evenstream.streams.stream import stream_generator


@dataclass(frozen=True, kw_only=True)
class ClassIncremental(ClassGroups):
    """Groups of classes arrive one after another, each class in one task."""

    reserve: int = 0
    """Number of classes set aside for pre-training, which never arrive."""
    base_seed: int = 0
    """Determines which classes are set aside; not the run's seed, so that one pre-trained network
    fits all."""

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """One task for each group of classes, without those set aside."""
        base = base_classes(dataset, self.reserve, self.base_seed)
        streamed = np.setdiff1d(np.arange(dataset.n_classes), base)
        groups = self.groups(dataset, seed, streamed)
        return Layout(dataset, [task_of(dataset, group) for group in groups])


def base_classes(dataset: Dataset, reserve: int, base_seed: int = 0) -> Indices:
    """The classes of a data set set aside for pre-training, in label order."""
    if not 0 <= reserve < dataset.n_classes:
        raise InputError(
            f"{dataset.name}: reserve must lie between 0 and {dataset.n_classes - 1}, one less "
            f"than there are classes, got {reserve}"
        )
    drawn = stream_generator(base_seed, "base").permutation(dataset.n_classes)
    return np.sort(drawn[:reserve])
