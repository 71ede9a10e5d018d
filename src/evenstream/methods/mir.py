"""MIR: replay the stored samples that the coming update would hurt most."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from evenstream.learner.rows import Rows
from evenstream.learner.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import ER
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.methods.parts.virtual_step import losses_with, virtual_parameters
from evenstream.slots.retrieval import Retrieval, Uniform


class MaximallyInterfered(Retrieval):
    """The candidates whose loss rises most after a virtual step on the incoming batch."""

    def __init__(self, subsample: int) -> None:
        self.subsample = subsample

    def pick(self, step: Step, count: int) -> Rows:
        """Draw candidates, score each by CE(θ') - CE(θ), keep the highest, with their views."""
        candidates = Uniform().pick(step, max(self.subsample, count))
        if len(candidates) <= count:
            return candidates
        network, incoming = step.network, step.incoming
        with frozen_statistics(network):
            loss = F.cross_entropy(network(incoming.x), incoming.y)
            ahead = virtual_parameters(network, loss, step.lr)
            now = {name: p.detach() for name, p in network.named_parameters()}
            after = losses_with(network, ahead, candidates.x, candidates.y)
            before = losses_with(network, now, candidates.x, candidates.y)
        return candidates.take(torch.argsort(after - before, descending=True, stable=True)[:count])


@register("mir")
@dataclass
class MIR(ER):
    """Replay what the incoming batch would interfere with most; otherwise as ER."""

    citation = "Aljundi et al., Online Continual Learning with Maximally Interfered Retrieval, 2019"
    cost = "F(b) + G(b) + 2 F(subsample) + F(b+m) + G(b+m)"

    subsample: int = 160
    """Candidates drawn uniformly from memory in each step."""

    def make_retrieval(self) -> Retrieval:
        """Maximally interfered retrieval."""
        return MaximallyInterfered(self.subsample)
