"""Predict with an average of the weights instead of the newest ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Fading, Positive, Share
from evenstream.core.averaging import moved_average
from evenstream.core.edits import WHOLE, by_name
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.core.step import Step
from evenstream.policies.rules.rule import InferenceRule, register_rule


@register_rule("ema")
@dataclass
class MovingAverage(InferenceRule):
    """The logits of an exponential moving average of the weights, BatchNorm statistics included.

    The average forgets more slowly than the network and is less noisy (Soutif-Cormerais et al.,
    2023). It costs a second network and its forward pass. At the start, and for the newest classes,
    it lags behind the network; a warm-up, or mixing in the network, helps.
    """

    reads_memory = False
    gives_logits = True
    moves_weights = True

    decay: Fading = 0.99
    """Share of the average kept at each step; 0 is argmax."""
    warmup: bool = False
    """Keep less of it at first: (1 + t) / (10 + t) at step t, while that is below `decay`."""
    mix: Share = 0.0
    """Weight of the network itself: 0 is the average alone, 0.5 the mean of both, 1 argmax."""
    mean: Literal["logits", "probabilities"] = "logits"
    """What is averaged over the two if `mix` is not 0; averaging log-softmax gives the same as
    averaging logits."""

    measure_every: Positive = 1
    """Batches between two measurements of the accuracy before learning, each of which takes a
    forward pass of the average; it changes nothing else."""

    AVERAGE, STEPS = "average", "steps"
    follows = by_name({STEPS: WHOLE})

    @property
    def asked_every(self) -> int:
        """As the option says."""
        return self.measure_every

    def after_step(self, step: Step) -> None:
        """Move the average towards the network; it starts as a copy."""
        average = self.modules.get(self.AVERAGE)
        self.modules[self.AVERAGE] = moved_average(average, step.network, self._kept())

    def _kept(self) -> float:
        """Share of the average kept at this step, which is counted if there is a warm-up."""
        if not self.warmup:
            return self.decay
        steps = int(self.tensors.get(self.STEPS, 0))
        self.tensors[self.STEPS] = torch.tensor(steps + 1)
        return min(self.decay, (1 + steps) / (10 + steps))

    def prepare(self, context: InferenceContext) -> Any:
        """The average."""
        return self.modules.get(self.AVERAGE, context.network)

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The logits of the average, or the mix; a class that it has not seen yet cannot win."""
        logits: Tensor = prepared(outputs.x)[:, : outputs.n_classes]
        if self.mix:
            logits = self._mixed(logits, outputs.logits[:, : logits.shape[1]])
        return F.pad(logits, (0, outputs.n_classes - logits.shape[1]), value=-math.inf)

    def _mixed(self, average: Tensor, network: Tensor) -> Tensor:
        """The mean of both, weighted by `mix`."""
        if self.mean == "logits":
            return (1 - self.mix) * average + self.mix * network
        return ((1 - self.mix) * average.softmax(1) + self.mix * network.softmax(1)).log()
