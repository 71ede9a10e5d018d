"""Contrastive losses: views of the same class attract each other, others are pushed away."""

from __future__ import annotations

import math

import torch
from torch import Tensor

EPS = 1e-8


def supervised_contrastive(embeddings: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """The supervised contrastive loss of unit embeddings (SCR), mean over anchors.

    For anchor i with positives P(i), the other rows of its class (at least one):
    -1/|P(i)| · Σ_{p ∈ P(i)} log[ exp(s_ip/T) / Σ_{a ≠ i} exp(s_ia/T) ].
    """
    similarities = embeddings @ embeddings.T / temperature
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    log_shares = similarities.masked_fill(itself, -math.inf).log_softmax(1)
    positives = _same_class(labels) & ~itself
    return -(log_shares.masked_fill(~positives, 0).sum(1) / positives.sum(1)).mean()


def nt_new(similarities: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """OCM's loss for new data: twice the class loss, plus that of the other view.

    The rows are all first views, then all second ones. A row's share of itself is 0, but the row
    stays in the mean over its class, as in the public code: a constant without gradient,
    2·log(1/EPS)/|class|, is in the loss.
    """
    itself = torch.eye(len(labels), dtype=similarities.dtype, device=similarities.device)
    losses = _pair_losses(similarities, temperature, 1 - itself)
    other_view = torch.arange(len(labels), device=labels.device).roll(len(labels) // 2)
    return 2 * _class_mean(losses, labels) + losses.gather(1, other_view[:, None]).mean()


def nt_same(similarities: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """OCM's loss for replayed data: attraction within a class, including a row to itself.

    It serves as NT_uni, with similarities among current embeddings, and as NT_pre, with those of
    current embeddings to the previous model's.
    """
    return _class_mean(_pair_losses(similarities, temperature), labels)


def _pair_losses(similarities: Tensor, temperature: float, mask: Tensor | None = None) -> Tensor:
    """-log of each column's share of its row, with OCM's EPS; masked pairs have no share."""
    shifted = similarities - similarities.amax(1, keepdim=True).detach()
    weights = (shifted / temperature).exp()
    if mask is not None:
        weights = weights * mask
    return -(weights / (weights.sum(1, keepdim=True) + EPS) + EPS).log()


def _class_mean(losses: Tensor, labels: Tensor) -> Tensor:
    """Mean over rows of the mean over the columns of the row's class."""
    same = _same_class(labels)
    return ((losses * same).sum(1) / same.sum(1)).mean()


def _same_class(labels: Tensor) -> Tensor:
    return labels[:, None] == labels
