"""IL2M: train like ER, rescale old classes when predicting."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.policies.rules import InferenceRule
from evenstream.policies.rules.rescaling import Measured, Rescaled


@register("il2m")
@dataclass
class IL2M(Replay):
    """ER with a dual memory: samples, and how confident the network was when classes were new."""

    citation = "Belouadah and Popescu, IL2M: Class Incremental Learning With Dual Memory, 2019"

    measured: Measured = "in-training"
    """When the confidence is measured: during training, over the task's last epoch, or with the
    trained network at the end of the task, as public codes do, which needs the task's data."""

    def make_rule(self) -> InferenceRule:
        """Rescaled probabilities."""
        return Rescaled(self.measured)
