"""Domain-incremental streams: the classes stay, their appearance changes from task to task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evenstream.data import Dataset
from evenstream.data.samples import Arrays, Indices
from evenstream.errors import InputError
from evenstream.streams.scenario import Layout, Scenario, deal
from evenstream.streams.stream import Domains, Task, stream_generator
from evenstream.streams.superclasses import by_superclass

_ANGLES = (0, 90, 180, 270)


@dataclass(frozen=True, kw_only=True)
class DomainIncremental(Scenario):
    """All classes in every task, each from a new domain: other subclasses, or other rotations.

    The class prior does not change, so there is no inter-class imbalance for Logit Adjusted Softmax
    to remove.
    """

    by: Literal["auto", "subclass", "rotation"] = "auto"
    """What a domain is: the n-th subclass of each superclass, or images rotated by 0, 90, 180 and
    270 degrees; auto is subclass for data sets with superclasses."""

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """One task for each domain."""
        if self.by == "subclass" or (self.by == "auto" and dataset.coarse is not None):
            relabelled, domains = by_superclass(dataset)
        else:
            relabelled, domains = _rotated(dataset, seed)
        return Layout(relabelled, _one_task_each(relabelled, domains), domains)


def _one_task_each(dataset: Dataset, domains: Domains) -> list[Task]:
    tasks = []
    for number in range(len(domains.names)):
        train, test = (np.flatnonzero(part == number) for part in (domains.train, domains.test))
        classes = np.union1d(dataset.y_train[train], dataset.y_test[test])
        tasks.append(Task(tuple(classes.tolist()), train, test))
    return tasks


def _rotated(dataset: Dataset, seed: int) -> tuple[Dataset, Domains]:
    """Each training image in one rotation, drawn evenly in each class; test images in all."""
    x_train, x_test, shape = dataset.x_train, dataset.x_test, dataset.input_shape
    if not (isinstance(x_train, np.ndarray) and isinstance(x_test, np.ndarray)):
        raise InputError(f"{dataset.name}: by=rotation needs images in memory, not files on disk")
    if not dataset.is_image or shape[1] != shape[2]:
        raise InputError(f"{dataset.name}: by=rotation needs square images, not shape {shape}")
    turns = deal(dataset.y_train, len(_ANGLES), stream_generator(seed, "rotation"))
    every = np.repeat(np.arange(len(_ANGLES)), len(x_test))
    turned = replace(
        dataset,
        x_train=_turn(x_train, turns),
        x_test=_turn(np.concatenate([x_test] * len(_ANGLES)), every),
        y_test=np.tile(dataset.y_test, len(_ANGLES)),
        coarse=None,
    )
    return turned, Domains(turns, every, [f"{angle}°" for angle in _ANGLES])


def _turn(images: Arrays, turns: Indices) -> Arrays:
    """A copy with each image rotated by the given number of quarter turns."""
    out = images.copy()
    for quarter in range(1, len(_ANGLES)):
        rows = turns == quarter
        out[rows] = np.rot90(images[rows], quarter, axes=(2, 3))
    return out
