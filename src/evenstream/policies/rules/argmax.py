"""The default rule: the network's own logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from evenstream.core.outputs import Outputs
from evenstream.policies.rules.rule import InferenceRule, register_rule


@register_rule("argmax")
@dataclass
class ArgMax(InferenceRule):
    """The raw logits, without any adjustment, as the paper does at test time."""

    reads_memory = False
    gives_logits = True

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The logits themselves."""
        return outputs.logits
