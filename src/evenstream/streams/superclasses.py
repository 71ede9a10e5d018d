"""Data sets with two levels of labels: superclasses to predict, subclasses as their domains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenstream.data import CoarseLabels, Dataset
from evenstream.data.dataset import int_classes
from evenstream.data.samples import Indices
from evenstream.errors import InputError
from evenstream.streams.stream import Domains


def coarse_labels(dataset: Dataset) -> CoarseLabels:
    """The coarse labels of a data set; raises an error if there are none."""
    if dataset.coarse is None:
        raise InputError(
            f"{dataset.name} has no superclasses, which this scenario needs; name the column of a "
            "table that holds them (:superclass=NAME), give a folder of images SUPERCLASS/CLASS, "
            "or use cifar100"
        )
    return dataset.coarse


def by_superclass(dataset: Dataset) -> tuple[Dataset, Domains]:
    """The data set with its superclasses as labels, and the domain of each sample.

    The domain is the number of the subclass inside its superclass, in label order (0 to 4 on
    CIFAR-100), so that domains can be compared across superclasses.
    """
    coarse = coarse_labels(dataset)
    rank = _rank_in_superclass(dataset, coarse)
    names = [f"subclass {number + 1}" for number in range(int(rank.max()) + 1)]
    domains = Domains(rank[dataset.y_train], rank[dataset.y_test], names)
    relabelled = replace(
        dataset,
        y_train=coarse.train,
        y_test=coarse.test,
        classes=coarse.labels or int_classes(len(coarse.names)),
        label_names=coarse.names,
        coarse=None,
    )
    return relabelled, domains


def _rank_in_superclass(dataset: Dataset, coarse: CoarseLabels) -> Indices:
    """For each class, its number among the classes of its superclass."""
    fine = np.concatenate([dataset.y_train, dataset.y_test])
    above = np.concatenate([coarse.train, coarse.test])
    superclass = np.full(dataset.n_classes, -1)
    superclass[fine] = above
    torn = np.flatnonzero(superclass[fine] != above)
    if len(torn):
        name = dataset.label_names[fine[torn[0]]]
        raise InputError(f"{dataset.name}: class {name} belongs to more than one superclass")
    ranks = [
        np.count_nonzero(superclass[:index] == superclass[index])
        for index in range(len(superclass))
    ]
    return np.array(ranks, dtype=np.int64)
