"""ER-OBC: after each ER step, correct the output layer alone on a fresh draw from memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from evenstream.learner.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import ER
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.slots.retrieval import draw_distinct


@register("er-obc")
@dataclass
class EROBC(ER):
    """ER, then a second step for head weight and bias only; the extractor does not move.

    The correction always uses plain cross-entropy: it is a remedy for the same bias, on rows as
    balanced as the memory. `er-obc-las` adjusts the first step.
    """

    citation = "Chrysakis and Moens, Online Bias Correction for Task-Free Continual Learning, 2023"
    cost = "F(b+m) + G(b+m) + F(m) + head only G(m)"
    logits_follow_criterion = False

    correction_batch: int = 0
    """Rows of the second draw; 0 means as many as are replayed."""
    correction_weight: float = 1.0
    """Factor of the second step's loss; 0 is ER."""

    def after_step(self, step: Step) -> None:
        """Step B: features without gradient, one step on the head."""
        count = self.correction_batch or step.replay_batch
        own = step.randomness.method
        rows = replace(step.fetch(draw_distinct(len(step.memory), count, own)), generator=own)
        if not len(rows):
            return
        with frozen_statistics(step.network), torch.no_grad():
            features = step.network.features(rows.x)
        loss = F.cross_entropy(step.network.logits(features), rows.y)
        step.optimise(self.correction_weight * loss, "head")
