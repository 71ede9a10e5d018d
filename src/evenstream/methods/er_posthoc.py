"""ER-PostHoc: train like ER, and remove the class frequencies from the logits when predicting."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Factor, Share
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.policies.rules import InferenceRule, PostHocCorrection
from evenstream.policies.rules.post_hoc import NOT_TWICE


@register("er-posthoc")
@dataclass
class ERPostHoc(Replay):
    """ER, then subtract τ·log(class frequency) from the logits at prediction: `er@post-hoc`.

    The paper names the correction but not which frequencies. Here they are those of recently
    trained rows, including replayed ones.
    """

    citation = "Collell et al., Reviving Threshold-Moving, 2016"
    logits_follow_criterion = False
    why_not_las = NOT_TWICE

    tau: Factor = 1.0
    """Strength of the correction; 0 is ER."""
    decay: Share = 0.9
    """Share of the counts kept at each step; 1 counts the whole stream equally, as for a fixed
    distribution."""

    def make_rule(self) -> InferenceRule:
        """Post-hoc correction."""
        return PostHocCorrection(self.tau, self.decay)
