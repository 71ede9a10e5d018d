"""ER-WN: train like ER, predict with head weights of equal length (τ-normalisation)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.heads import Head
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.policies.rules import InferenceRule, NormalisedWeights


@register("er-wn")
@dataclass
class ERWN(Replay):
    """ER whose head is normalised after training, so that no class wins by a longer weight.

    The paper only says that weights are normalised; Kang et al. do so at test time.
    """

    citation = "Kang et al., Decoupling Representation and Classifier for Long-Tailed Data, 2020"
    logits_follow_criterion = False

    power: Factor = 1.0
    """Exponent τ of the norm; 0 with keep_bias=true is ER."""
    keep_bias: bool = False
    """Add the bias as it was trained."""
    when: Literal["test", "train"] = "test"
    """Normalise only when predicting, or also in training."""

    def make_rule(self) -> InferenceRule:
        """Normalised weights."""
        return NormalisedWeights(self.power, self.keep_bias)

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """Only logits that were trained can predict."""
        if self.when == "train" and not isinstance(rule, NormalisedWeights):
            return "when=train trains normalised weights, so only the rule normalised can predict"
        return None

    def loss(self, step: Step) -> Tensor:
        """ER's loss, on normalised logits with when=train."""
        if self.when == "test":
            return super().loss(step)
        x, y = step.joint()
        features, _ = step.forward(x)
        head, width = step.network.head, step.network.width
        rule = NormalisedWeights(self.power, self.keep_bias)
        return step.ce(rule.logits(features, head.weight[:width], head.bias[:width]), y)
