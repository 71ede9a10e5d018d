"""Post-hoc correction: remove class frequencies from the logits when predicting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evenstream.bounds import Factor, Share
from evenstream.core.classes import pad_classes
from evenstream.core.edits import PerClass, by_name
from evenstream.core.heads import Head
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.core.step import Step
from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
from evenstream.policies.rules.rule import InferenceRule, register_rule

NOT_TWICE = (
    "Logit Adjusted Softmax has taken the class frequencies out in training already; "
    "subtracting them once more would favour rare classes"
)


@register_rule("post-hoc")
@dataclass
class PostHocCorrection(InferenceRule):
    """Logits minus τ·log π: class frequencies are removed when predicting, not when training.

    Exact for a network that has converged on a fixed distribution with frequencies π. In a stream
    they keep changing, which is what Logit Adjusted Softmax is for. π is counted over recently
    trained rows, including replayed ones: those that have shaped the logits.
    """

    reads_memory = False

    tau: Factor = 1.0
    """Strength of the correction; 0 is argmax."""
    decay: Share = 0.9
    """Share of the counts kept at each step; 1 counts the whole stream equally, as for a fixed
    distribution."""

    COUNTS = "label_counts"
    follows = by_name({COUNTS: PerClass(added=True)})

    def after_step(self, step: Step) -> None:
        """Count the labels that were trained on."""
        counts = torch.bincount(step.labels(), minlength=step.n_classes).double()
        if self.COUNTS in self.tensors:
            counts += self.decay * pad_classes(self.tensors[self.COUNTS], len(counts))
        self.tensors[self.COUNTS] = counts

    def why_not_with(self, criterion: CrossEntropy, head: Head) -> str | None:
        """Reject Logit Adjusted Softmax, so that frequencies are not removed twice."""
        adjusted = isinstance(criterion, LogitAdjustedSoftmax) and criterion.tau > 0
        return NOT_TWICE if adjusted else None

    def prepare(self, context: InferenceContext) -> Any:
        """The counts."""
        return self.tensors.get(self.COUNTS, torch.zeros(0))

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The logits minus τ·log π; every class counts as at least one row."""
        counts = pad_classes(prepared, outputs.logits.shape[1]).clamp_min(1)
        log_prior = (counts / counts.sum()).log().float()
        return outputs.logits - self.tau * log_prior.to(outputs.logits.device)
