"""MKD: distil from a moving average of the network, without any task boundary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evenstream.bounds import Factor, Fading
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.distillation import Temperature, distillation
from evenstream.methods.parts.taught_replay import FeaturesAndLogits, TaughtReplay


@register("mkd")
@dataclass
class MKD(TaughtReplay):
    """Momentum knowledge distillation; the teacher starts as a copy and is in eval mode.

    The original predicts with the mean of teacher and network; here the network predicts.
    """

    citation = (
        "Michel et al., Rethinking Momentum Knowledge Distillation in Online Continual Learning, "
        "2024"
    )
    cost = "2 F(b+m) + 2 G(b+m) + F(b+m) of the teacher"
    logits_follow_criterion = False

    weight: Factor = 5.5
    """Weight of the distillation (λ)."""
    averaging: Fading = 0.99
    """Share of the teacher's weights kept at each step (1 - α). 0 means a copy of the network at
    the end of each task, which needs task boundaries."""
    temperature: Temperature = 4.0
    """Temperature of the distillation."""
    raw_view: bool = True
    """Also pull the outputs on un-augmented rows towards the teacher's on augmented ones."""

    def distance(self, step: Step, new: FeaturesAndLogits, old: FeaturesAndLogits) -> Tensor:
        """T²·KL on the classes that the teacher knows, mean over the views."""
        (_, logits), (_, targets) = new, old
        views = [logits]
        if self.raw_view:
            views.append(step.net(torch.cat([rows.plain() for rows in step.groups if len(rows)])))
        terms = [
            distillation(view, targets, self.temperature, form="kl", scaled=True) for view in views
        ]
        return torch.stack(terms).mean()
