"""ER-ACE: incoming rows compete only with the classes that are present in the incoming batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.learner.step import Step
from evenstream.methods.base import Method, register
from evenstream.slots.inference import ArgMax, CosineSimilarity, InferenceRule


@register("er-ace")
@dataclass
class ERACE(Method):
    """Separate losses for incoming rows (present classes only) and replayed rows (all seen)."""

    citation = "Caccia et al., New Insights on Reducing Abrupt Representation Change, 2022"
    cost = "F(b) + F(m) + G(b+m)"

    mask: Literal["strict", "reference"] = "strict"
    """The public code leaves the newest class and those to come in the incoming softmax, too."""
    head: Literal["linear", "cosine"] = "linear"
    """The public code has a cosine head (scale 10, no bias); the paper's other methods have not."""

    def make_inference(self) -> InferenceRule:
        """What the head gives."""
        return ArgMax() if self.head == "linear" else CosineSimilarity()

    def loss(self, step: Step) -> Tensor:
        """mean_in CE over present classes + mean_replayed CE over seen classes."""
        incoming, replayed = step.groups
        logits = self.logits(step, incoming.x)
        absent = torch.ones(logits.shape[1], dtype=torch.bool, device=logits.device)
        absent[incoming.y] = False
        if self.mask == "reference":
            absent[step.n_classes - 1 :] = False
        loss = step.ce(logits.masked_fill(absent, -math.inf), incoming.y)
        if len(replayed):
            loss = loss + step.ce(self.logits(step, replayed.x), replayed.y)
        return loss

    def logits(self, step: Step, x: Tensor) -> Tensor:
        """Logits by the chosen head."""
        if self.head == "linear":
            return step.net(x)
        features, _ = step.forward(x)
        return CosineSimilarity().logits(features, step.network.head.weight[: step.network.width])
