"""The diagonal of the Fisher information: how much the outputs depend on each weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor

from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.methods.parts.per_sample import named_gradients

FisherForm = Literal["empirical", "mammoth"]
NUMBERS_AT_ONCE = 8_000_000
"""About this many numbers (32 MB) of per-sample gradients are held at a time."""


def fisher_diagonal(
    network: Classifier, rows: Iterable[tuple[Tensor, Tensor]], form: FisherForm = "empirical"
) -> dict[str, Tensor]:
    """Mean over rows of the squared gradient of log p(y|x), for every trainable parameter.

    The labels are those of the data (the empirical Fisher). `mammoth` weights each row by p(y|x),
    as that library does: misclassified rows count less.
    """
    sums = {n: torch.zeros_like(p) for n, p in network.named_parameters() if p.requires_grad}
    count = 0
    with evaluation_mode(network):
        for x, y in rows:
            gradients, logits = named_gradients(network, x, y)
            weights = torch.ones(len(y), device=y.device)
            if form == "mammoth":
                weights = logits.softmax(1).gather(1, y.unsqueeze(1)).squeeze(1)
            for name, gradient in gradients.items():
                sums[name] += torch.einsum("n,n...->...", weights, gradient.square())
            count += len(y)
    return {name: total / max(count, 1) for name, total in sums.items()}


def rows_at_once(network: Classifier) -> int:
    """The number of rows whose gradients are held at a time."""
    return max(1, NUMBERS_AT_ONCE // sum(p.numel() for p in network.parameters()))


def quadratic_penalty(
    weights: Mapping[str, Tensor], anchors: Mapping[str, Tensor], fisher: Mapping[str, Tensor]
) -> Tensor:
    """Sum over weights of F·(θ - θ*)²; head rows added since then are unconstrained."""
    terms = [
        (grown(fisher[name], weight) * (weight - grown(anchors[name], weight)).square()).sum()
        for name, weight in weights.items()
    ]
    return torch.stack(terms).sum()


def grown(old: Tensor, like: Tensor) -> Tensor:
    """An earlier version of a tensor, with zeros for rows added since then."""
    if old.shape == like.shape:
        return old
    wide = torch.zeros_like(like)
    wide[: len(old)] = old
    return wide
