"""Draws with the same number of rows from each class."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def slots_per_class(
    labels: Tensor,
    quota: int,
    generator: Generator,
    *,
    exclude: Tensor | None = None,
    replacement: bool = True,
) -> Tensor:
    """`quota` random positions of each class in `labels`, class by class.

    A class with fewer is drawn with replacement (each of its rows once, then again at random) or,
    without `replacement`, gives what it has.
    """
    labels = labels.cpu()
    order = torch.randperm(len(labels), generator=generator)
    excluded = set() if exclude is None else set(exclude.tolist())
    chosen = []
    for label, group in positions_by_class(labels, order):
        if label in excluded:
            continue
        short = quota - len(group)
        if short > 0 and replacement:
            again = torch.randint(len(group), (short,), generator=generator)
            group = torch.cat([group, group[again]])
        chosen.append(group[:quota])
    return torch.cat(chosen) if chosen else torch.zeros(0, dtype=torch.int64)


def balanced_slots(labels: Tensor, count: int, generator: Generator) -> Tensor:
    """`count` positions, taking classes in turn; a small class is drawn repeatedly."""
    classes = len(torch.unique(labels))
    if not classes:
        return torch.zeros(0, dtype=torch.int64)
    quota = -(-count // classes)
    by_class = slots_per_class(labels, quota, generator).view(classes, quota)
    return by_class[torch.randperm(classes, generator=generator)].T.flatten()[:count]


def positions_by_class(labels: Tensor, order: Tensor) -> list[tuple[int, Tensor]]:
    """Each class with its positions, in the order given by `order`."""
    order = order[labels[order].argsort(stable=True)]
    distinct, counts = torch.unique_consecutive(labels[order], return_counts=True)
    return list(zip(distinct.tolist(), torch.split(order, counts.tolist()), strict=True))
