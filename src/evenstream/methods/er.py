"""Experience Replay (Algorithm 1): train on the incoming batch and a uniform draw from memory."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from evenstream.core.step import Step
from evenstream.methods.base import Method, register


@register("er")
@dataclass
class ER(Method):
    """Mix each batch with stored samples, minimise cross-entropy over both."""

    citation = "Chaudhry et al., On Tiny Episodic Memories in Continual Learning, 2019"
    cost = "F(b+m) + G(b+m)"

    def loss(self, step: Step) -> Tensor:
        """Mean loss over the concatenated batch: one forward."""
        x, y = step.joint()
        return step.ce(step.net(x), y)
