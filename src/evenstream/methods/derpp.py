"""DER++: replay the logits that samples had when stored, and the labels of a second draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.edits import PerClass, by_name
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import Method, register


@register("der++")
@dataclass
class DERpp(Method):
    """Distil from stored logits (first draw), replay labels (second, independent draw)."""

    citation = "Buzzega et al., Dark Experience for General Continual Learning, 2020"
    cost = "F(b) + 2 F(m) + G(b+2m)"
    logits_follow_criterion = False
    stored = by_name({"logits": PerClass(1)})

    alpha: Factor = 0.1
    """Weight of the distance to stored logits."""
    beta: Factor = 0.5
    """Weight of the loss on replayed labels."""
    distance: Literal["mean", "sum"] = "mean"
    """Squared differences averaged over classes, as the public code does, or summed."""

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """Incoming rows and the second draw, whose labels are scored."""
        step.notes["distilled"] = step.retrieve()
        return [step.incoming, step.retrieve()]

    def loss(self, step: Step) -> Tensor:
        """CE(z_in, y) + α·MSE(z', h') + β·CE(z'', y'')."""
        incoming, labelled = step.groups
        distilled: Rows = step.notes["distilled"]
        logits = step.net(incoming.x)
        step.remember(logits=logits)
        loss = step.ce(logits, incoming.y)
        if len(distilled):
            stored = distilled.fields["logits"]
            now = step.net(distilled.x)[:, : stored.shape[1]]
            scale = 1 if self.distance == "mean" else stored.shape[1]
            loss = loss + self.alpha * scale * F.mse_loss(now, stored)
            loss = loss + self.beta * step.ce(step.net(labelled.x), labelled.y)
        return loss
