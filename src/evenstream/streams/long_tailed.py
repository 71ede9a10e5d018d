"""Long-tailed streams: class-incremental, with common and rare classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenstream.data import Dataset
from evenstream.data.samples import Indices
from evenstream.errors import InputError
from evenstream.streams.scenario import ClassGroups, Layout, task_of, thinned
from evenstream.streams.stream import stream_generator


@dataclass(frozen=True, kw_only=True)
class LongTailed(ClassGroups):
    """Groups of classes arrive one after another; class sizes fall off exponentially.

    The class of rank c among C keeps n_max * imbalance ** (c / (C - 1)) training samples, drawn by
    the seed, where n_max is the size of the largest class: part of the data set by design, each
    sample at most once. The test sets stay whole.
    """

    imbalance: float = 0.01
    """Size of the smallest class relative to the largest."""
    rare: Literal["label", "seed"] = "label"
    """Which classes are rare: those with the last labels, or drawn from the seed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.imbalance <= 1:
            raise InputError(f"imbalance must lie above 0 and not above 1, got {self.imbalance}")

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """Class groups, thinned."""
        draw = stream_generator(seed, "long-tailed")
        kept = np.zeros(len(dataset.y_train), dtype=bool)
        for index, size in enumerate(self._sizes(dataset, seed)):
            kept[draw.permutation(np.flatnonzero(dataset.y_train == index))[:size]] = True
        tasks = [task_of(dataset, group) for group in self.groups(dataset, seed)]
        return thinned(Layout(dataset, tasks), kept)

    def _sizes(self, dataset: Dataset, seed: int) -> list[int]:
        """The number of training samples that each class keeps, at least one."""
        largest = np.bincount(dataset.y_train).max()
        last = max(dataset.n_classes - 1, 1)
        ranks: Indices = np.arange(dataset.n_classes)
        if self.rare == "seed":
            ranks = stream_generator(seed, "rare").permutation(ranks)
        return [max(1, int(largest * self.imbalance ** (rank / last))) for rank in ranks.tolist()]
