"""ER-WN: train as ER, predict with head weights of equal length (τ-normalisation)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from evenstream.methods.base import register
from evenstream.methods.er import ER
from evenstream.slots.inference import InferenceRule, Model, Outputs


class NormalisedWeights(InferenceRule):
    """Logits with w_c / ‖w_c‖^τ, by default without bias."""

    def __init__(self, power: float = 1.0, keep_bias: bool = False) -> None:
        self.power, self.keep_bias = power, keep_bias

    def prepare(self, model: Model) -> Any:
        """The normalised weights."""
        weight = model.network.head.weight
        norms = weight.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return weight / norms**self.power, model.network.head.bias

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """Features times normalised weights, for the seen classes."""
        weight, bias = (part[: outputs.logits.shape[1]] for part in prepared)
        scores: Tensor = outputs.features @ weight.T
        return scores + bias if self.keep_bias else scores


@register("er-wn")
@dataclass
class ERWN(ER):
    """ER whose head is normalised after training, so that no class wins by a longer weight."""

    citation = "Kang et al., Decoupling Representation and Classifier for Long-Tailed Data, 2020"
    logits_follow_criterion = False

    power: float = 1.0
    """Exponent τ of the norm; 0 with keep_bias=true is ER."""
    keep_bias: bool = False
    """Add the bias as it was trained."""

    def make_inference(self) -> InferenceRule:
        """Normalised weights."""
        return NormalisedWeights(self.power, self.keep_bias)
