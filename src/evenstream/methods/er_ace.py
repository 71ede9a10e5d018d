"""ER-ACE: incoming rows compete only with the classes that are present in the incoming batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from evenstream.learner.step import Step
from evenstream.methods.base import Method, register


@register("er-ace")
@dataclass
class ERACE(Method):
    """Separate losses for incoming rows (present classes only) and replayed rows (all seen)."""

    citation = "Caccia et al., New Insights on Reducing Abrupt Representation Change, 2022"
    cost = "F(b) + F(m) + G(b+m)"

    def loss(self, step: Step) -> Tensor:
        """mean_in CE over present classes + mean_replayed CE over seen classes."""
        incoming, replayed = step.groups
        logits = step.net(incoming.x)
        absent = torch.ones(logits.shape[1], dtype=torch.bool, device=logits.device)
        absent[incoming.y] = False
        loss = step.ce(logits.masked_fill(absent, -math.inf), incoming.y)
        if len(replayed):
            loss = loss + step.ce(step.net(replayed.x), replayed.y)
        return loss
