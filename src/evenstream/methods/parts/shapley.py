"""Exact Shapley values of the K-nearest-neighbour classifier, for ASER."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """All squared Euclidean distances, via the Gram matrix, without an (n, m, d) tensor."""
    squares = a.square().sum(1, keepdim=True) + b.square().sum(1)
    return (squares - 2 * a @ b.T).clamp_min(0)


def knn_shapley(
    evaluation: Tensor,
    evaluation_labels: Tensor,
    candidates: Tensor,
    candidate_labels: Tensor,
    neighbours: int,
) -> Tensor:
    """Value of each candidate (column) for each evaluation point (row).

    With candidates α_1..α_N sorted by distance and matches 1_i = [y_{α_i} = y]:
    s_N = 1_N · min(K, N) / (K · N), and s_i = s_{i+1} + (1_i - 1_{i+1}) / K · min(K, i) / i.
    """
    n = len(candidates)
    order = squared_distances(evaluation, candidates).argsort(dim=1, stable=True)
    matches = (candidate_labels[order] == evaluation_labels.unsqueeze(1)).to(evaluation.dtype)
    rank = torch.arange(1, n + 1, device=evaluation.device, dtype=evaluation.dtype)
    share = rank.clamp(max=neighbours) / (neighbours * rank)
    last = matches[:, -1:] * share[-1]
    steps = (matches[:, :-1] - matches[:, 1:]) * share[:-1]
    values = torch.cat([steps, last], 1).flip(1).cumsum(1).flip(1)
    return torch.zeros_like(values).scatter_(1, order, values)
