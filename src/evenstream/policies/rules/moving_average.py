"""Predicting with an average of the weights instead of the newest ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Fading
from evenstream.core.averaging import moved_average
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.core.step import Step
from evenstream.policies.rules.rule import InferenceRule, register_rule


@register_rule("ema")
@dataclass
class MovingAverage(InferenceRule):
    """The logits of an exponential moving average of the weights, BatchNorm statistics included.

    The average forgets more slowly than the network, and has less of the noise of single steps
    (Soutif-Cormerais et al., 2023). It costs a second network and its forward.
    """

    gives_logits = True
    moves_weights = True

    decay: Fading = 0.99
    """How much of the average is kept at each step; 0 is argmax."""

    AVERAGE = "average"

    def after_step(self, step: Step) -> None:
        """Move the average towards the network; it starts as a copy."""
        average = self.modules.get(self.AVERAGE)
        self.modules[self.AVERAGE] = moved_average(average, step.network, self.decay)

    def prepare(self, context: InferenceContext) -> Any:
        """The average."""
        return self.modules.get(self.AVERAGE, context.network)

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The average's logits; a class that it has not met yet cannot win."""
        n_classes = outputs.logits.shape[1]
        logits: Tensor = prepared(outputs.x)[:, :n_classes]
        return F.pad(logits, (0, n_classes - logits.shape[1]), value=-math.inf)
