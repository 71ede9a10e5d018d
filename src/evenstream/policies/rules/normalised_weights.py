"""τ-normalisation: class weights of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.heads import Cosine, Head
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.policies.criteria import CrossEntropy
from evenstream.policies.rules.rule import InferenceRule, register_rule


@register_rule("normalised")
@dataclass
class NormalisedWeights(InferenceRule):
    """Logits with w_c / ‖w_c‖^τ: no class wins by a longer weight. No bias by default."""

    reads_memory = False

    power: Factor = 1.0
    """Exponent τ of the norm; 0 with keep_bias=true is argmax."""
    keep_bias: bool = False
    """Add the bias as it was trained."""

    def logits(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Prepare the normalised weights; a weight of length zero stays unchanged."""
        norms = weight.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return F.linear(features, weight / norms**self.power, bias if self.keep_bias else None)

    def why_not_with(self, criterion: CrossEntropy, head: Head) -> str | None:
        """Reject cosine heads, where the length of weights does not matter."""
        if isinstance(head, Cosine):
            return "in a cosine head no class wins by a longer weight; use the rule argmax"
        if head.with_exits:
            return "classes have a weight at each exit; use the rule argmax"
        return None

    def prepare(self, context: InferenceContext) -> Any:
        """The head."""
        return context.network.head.weight, context.network.head.bias

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The normalised logits of the seen classes."""
        weight, bias = (part[: outputs.logits.shape[1]] for part in prepared)
        return self.logits(outputs.features, weight, bias)
