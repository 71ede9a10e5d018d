"""IL2M: train as ER, rescale old classes when predicting."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.methods.base import register
from evenstream.methods.er import ER
from evenstream.policies.rules import InferenceRule
from evenstream.policies.rules.rescaling import Rescaled


@register("il2m")
@dataclass
class IL2M(ER):
    """ER with a dual memory: samples, and how confident the network was when classes were new."""

    citation = "Belouadah and Popescu, IL2M: Class Incremental Learning With Dual Memory, 2019"

    def make_rule(self) -> InferenceRule:
        """Rescaled probabilities."""
        return Rescaled()
