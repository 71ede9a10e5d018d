"""Class-incremental streams by first letter: the paper's C-iNaturalist."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from evenstream.data import Dataset
from evenstream.streams.scenario import Layout, Scenario, task_of


@dataclass(frozen=True, kw_only=True)
class InitialLetter(Scenario):
    """One task for each first letter of the classes' names, from A to Z.

    Letters with no classes are left out: nothing would arrive, and nothing could be tested.
    """

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """Group the classes by first letter, upper or lower case."""
        groups: dict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(dataset.label_names):
            groups[name.strip()[:1].upper()].append(index)
        return Layout(dataset, [task_of(dataset, np.array(groups[key])) for key in sorted(groups)])
