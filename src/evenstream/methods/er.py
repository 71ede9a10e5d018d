"""Experience Replay (Algorithm 1): train on the incoming batch and a uniform draw from memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.core.step import Step
from evenstream.methods.base import Method, register


@dataclass
class Replay(Method):
    """Base of methods that minimise cross-entropy over each batch and stored samples."""

    citation = "Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019"
    cost = "F(b+m) + G(b+m)"

    @property
    def weighs_rows(self) -> bool:
        """The loss is simply a mean over rows."""
        return True

    def loss(self, step: Step) -> Tensor:
        """Mean loss over the concatenated batch, in one forward pass."""
        x, y = step.joint()
        return step.ce(step.net(x), y)


@register("er")
@dataclass
class ER(Replay):
    """Mix each batch with stored samples and minimise cross-entropy over both."""

    reduction: Literal["mean", "sum-of-means"] = "mean"
    """One mean over all rows, or the mean over incoming rows plus that over replayed ones, as in
    ER-ACE, ER-CBA and DER++: with b = m each update is then about twice as large."""
    forwards: Literal["joint", "separate"] = "joint"
    """One forward pass over all rows, or one per group, so that BatchNorm does not mix them."""

    def loss(self, step: Step) -> Tensor:
        """Mean loss over all rows, or the sum of the means over incoming and replayed ones."""
        if (self.reduction, self.forwards) == ("mean", "joint"):
            return super().loss(step)
        x, y = step.joint()
        groups = [rows for rows in step.groups if len(rows)]
        if self.forwards == "separate":
            logits = [step.net(rows.x) for rows in groups]
        else:
            logits = list(torch.split(step.net(x), [len(rows) for rows in groups]))
        if self.reduction == "mean":
            return step.ce(torch.cat(logits), y)
        losses = [step.ce(part, rows.y) for part, rows in zip(logits, groups, strict=True)]
        return torch.stack(losses).sum()
