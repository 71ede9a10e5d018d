"""ER-PostHoc: train as ER, take the class frequencies out of the logits when predicting."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evenstream.learner.step import Step
from evenstream.methods.base import register
from evenstream.methods.bounds import Factor, Share
from evenstream.methods.er import ER
from evenstream.slots.inference import InferenceRule, PostHocCorrection
from evenstream.slots.priors import pad_classes

COUNTS = "label_counts"


@register("er-posthoc")
@dataclass
class ERPostHoc(ER):
    """ER, then subtract τ·log(class frequency) from the logits at prediction.

    The paper names the correction but not whose frequencies. Here they are those of the rows that
    were trained on lately, replayed ones included: what the logits have taken in.
    """

    citation = "Collell et al., Reviving Threshold-Moving, 2016"
    logits_follow_criterion = False
    why_not_las = (
        "Logit Adjusted Softmax has taken the class frequencies out in training already; "
        "subtracting them once more would favour rare classes"
    )

    tau: Factor = 1.0
    """Strength of the correction; 0 is ER."""
    decay: Share = 0.9
    """How much of the counts is kept at each step; 1 counts the whole stream alike, as for a fixed
    distribution."""

    def make_inference(self) -> InferenceRule:
        """Post-hoc correction by the rows counted so far."""
        return PostHocCorrection(self.tau, lambda: self.tensors[COUNTS])

    def loss(self, step: Step) -> Tensor:
        """Count the step's labels, then train as ER."""
        counts = torch.bincount(step.labels(), minlength=step.n_classes).double()
        if COUNTS in self.tensors:
            counts += self.decay * pad_classes(self.tensors[COUNTS], len(counts))
        self.tensors[COUNTS] = counts
        return super().loss(step)
