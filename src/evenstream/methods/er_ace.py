"""ER-ACE: incoming rows compete only with the classes that are present in the incoming batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from evenstream.core.classes import class_mask
from evenstream.core.step import Step
from evenstream.methods.base import Method, register


@register("er-ace")
@dataclass
class ERACE(Method):
    """Separate losses for incoming rows (present classes only) and replayed rows (all seen).

    The public code has a cosine head (`er-ace:head=cosine`), unlike the paper's other methods.
    """

    citation = "Caccia et al., New Insights on Reducing Abrupt Representation Change, 2022"
    cost = "F(b) + F(m) + G(b+m)"
    weighs_rows = True

    mask: Literal["strict", "reference"] = "strict"
    """Classes in the incoming softmax: those present, or, as in the public code, also the newest
    class and future ones."""

    def loss(self, step: Step) -> Tensor:
        """mean_in CE over present classes + mean_replayed CE over seen classes."""
        incoming, replayed = step.groups
        logits = step.net(incoming.x)
        absent = ~class_mask(incoming.y, logits.shape[1])
        if self.mask == "reference":
            absent[step.n_classes - 1 :] = False
        loss = step.ce(logits.masked_fill(absent, -math.inf), incoming.y)
        if len(replayed):
            loss = loss + step.ce(step.net(replayed.x), replayed.y)
        return loss
