"""Class-incremental streams: the classes are cut into groups that arrive one after the other."""

from __future__ import annotations

from typing import Literal

import numpy as np

from evenstream.data import Dataset
from evenstream.errors import InputError
from evenstream.streams.base import Protocol, Stream, Task, stream_generator

ClassOrder = Literal["label", "seed"]


def class_incremental(
    name: str,
    dataset: Dataset,
    n_tasks: int,
    protocol: Protocol,
    seed: int,
    class_order: ClassOrder = "label",
) -> Stream:
    """`n_tasks` groups of classes, equal in size or differing by one.

    Classes come in label order, as in the public code, or in an order drawn from the seed.
    """
    if not 1 <= n_tasks <= dataset.n_classes:
        raise InputError(
            f"{name}: tasks must lie between 1 and the number of classes, {dataset.n_classes}, "
            f"got {n_tasks}"
        )
    order = np.arange(dataset.n_classes)
    if class_order == "seed":
        order = stream_generator(seed, "classes").permutation(order)
    tasks = [
        Task(
            classes=tuple(group.tolist()),
            train=np.flatnonzero(np.isin(dataset.y_train, group)),
            test=np.flatnonzero(np.isin(dataset.y_test, group)),
        )
        for group in np.array_split(order, n_tasks)
    ]
    return Stream(name, dataset, tasks, protocol, seed)
