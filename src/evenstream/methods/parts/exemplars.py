"""Exemplars: the few rows that are kept when a task is over, equally many per group."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from evenstream.methods.parts.balanced import positions_by_class


def choose_exemplars(
    groups: Tensor, capacity: int, generator: Generator, order: Tensor | None = None
) -> Tensor:
    """Positions of ⌊capacity/G⌋ rows of each of the G groups (classes, or tasks), group by group.

    If there are more groups than places, `capacity` random groups keep one row each. `order` lists
    positions by priority; by default it is random.
    """
    groups = groups.cpu()
    if order is None:
        order = torch.randperm(len(groups), generator=generator)
    members = [positions for _, positions in positions_by_class(groups, order)]
    if len(members) > capacity:
        lucky = torch.randperm(len(members), generator=generator)[:capacity].sort().values
        members = [members[index][:1] for index in lucky.tolist()]
    quota = capacity // max(1, len(members))
    return torch.cat([order[:0], *(positions[:quota] for positions in members)])


def herding_order(features: Tensor, labels: Tensor, count: int) -> Tensor:
    """The first `count` positions that herding chooses in each class, class by class."""
    points, labels = F.normalize(features, dim=1).cpu(), labels.cpu()
    chosen = [
        positions[herd(points[positions], count)]
        for _, positions in positions_by_class(labels, torch.arange(len(labels)))
    ]
    return torch.cat([torch.arange(0), *chosen])


def herd(points: Tensor, count: int) -> Tensor:
    """At most `count` positions; each brings the chosen mean closest to the overall mean.

    For points of length one, that is the one with the largest inner product with
    k·mean - (sum of the k-1 chosen before).
    """
    mean = points.mean(0)
    wanted, taken = mean, torch.zeros(len(points), dtype=points.dtype)
    chosen = []
    for _ in range(min(count, len(points))):
        best = int((points @ wanted + taken).argmax())
        chosen.append(best)
        taken[best] = -math.inf
        wanted = wanted + mean - points[best]
    return torch.tensor(chosen, dtype=torch.int64)
