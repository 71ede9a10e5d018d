"""ER-CBL: weight each row by the effective number of its class's samples in the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Factor, Within
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay


@register("er-cbl")
@dataclass
class ERCBL(Replay):
    """ER with the class-balanced loss: rare classes of the batch get more weight."""

    citation = "Cui et al., Class-Balanced Loss Based on Effective Number of Samples, 2019"
    weighs_rows = False  # it has its own weights

    beta: Annotated[float, Within(0, math.nextafter(1, 0))] = 0.9999
    """0 weights all rows equally; towards 1 the weight becomes the inverse frequency."""
    form: Literal["softmax", "focal"] = "softmax"
    """The loss that is weighted: cross-entropy, or the focal loss of one binary choice per class,
    which the LAS authors' code contains."""
    gamma: Factor = 0.5
    """How much less rows that are already right count (form=focal); 0 is the sigmoid loss."""

    @property
    def why_not_las(self) -> str | None:
        """Only a softmax has a prior to remove."""
        return None if self.form == "softmax" else "the focal loss has no softmax to adjust"

    def loss(self, step: Step) -> Tensor:
        """(1/n) Σ w_{y_i} CE_i, or the focal loss in place of CE."""
        x, y = step.joint()
        logits = step.net(x)
        if self.form == "softmax":
            losses = step.ce(logits, y, reduction="none")
        else:
            losses = focal_losses(logits, y, self.gamma)
        return (class_weights(y, step.n_classes, self.beta)[y] * losses).mean()


def focal_losses(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """-Σ_c (1 - p_c)^γ log p_c of each row, p_c the sigmoid's belief in the right answer for c."""
    sign = 2.0 * F.one_hot(labels, logits.shape[1]) - 1
    right = F.logsigmoid(sign * logits)
    wrong = F.logsigmoid(-sign * logits)
    return -((gamma * wrong).exp() * right).sum(1)


def class_weights(labels: Tensor, n_classes: int, beta: float) -> Tensor:
    """w_c = (1 - β) / (1 - β^{n_c}), scaled to sum to the number of present classes."""
    counts = torch.bincount(labels, minlength=n_classes).double()
    present = counts > 0
    weights = torch.where(present, (1 - beta) / (1 - beta ** counts.clamp_min(1)), 0.0)
    return (weights * present.sum() / weights.sum()).float()
