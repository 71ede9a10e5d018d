"""ER-CBL: weight each row by the effective number of its class's samples in the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evenstream.learner.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import ER


@register("er-cbl")
@dataclass
class ERCBL(ER):
    """ER with the class-balanced loss: rare classes of the batch weigh more."""

    citation = "Cui et al., Class-Balanced Loss Based on Effective Number of Samples, 2019"

    beta: float = 0.9999
    """0 weighs all rows alike, towards 1 the weight is the inverse frequency."""

    def loss(self, step: Step) -> Tensor:
        """(1/n) Σ w_{y_i} CE_i."""
        x, y = step.joint()
        losses = step.ce(step.net(x), y, reduction="none")
        return (class_weights(y, step.n_classes, self.beta)[y] * losses).mean()


def class_weights(labels: Tensor, n_classes: int, beta: float) -> Tensor:
    """w_c = (1 - β) / (1 - β^{n_c}), 0 for absent classes, in sum the number of present ones."""
    counts = torch.bincount(labels, minlength=n_classes).double()
    present = counts > 0
    weights = torch.where(present, (1 - beta) / (1 - beta ** counts.clamp_min(1)), 0.0)
    return (weights * present.sum() / weights.sum()).float()
