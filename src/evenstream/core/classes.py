"""Tensors with one entry for each class."""

from __future__ import annotations

import torch
from torch import Tensor


def pad_classes(weights: Tensor, n_classes: int) -> Tensor:
    """Append zeros until there is one entry for each of `n_classes` classes."""
    missing = n_classes - weights.shape[0]
    return torch.nn.functional.pad(weights, (0, missing)) if missing > 0 else weights


def class_mask(labels: Tensor, n_classes: int) -> Tensor:
    """True for each of `n_classes` classes that is among the labels."""
    mask = torch.zeros(n_classes, dtype=torch.bool, device=labels.device)
    mask[labels] = True
    return mask
