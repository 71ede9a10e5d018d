"""ER-Up: over-sample old classes from memory until each has as many rows as a present one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from evenstream.core.memory import Y
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.methods.parts.balanced import slots_per_class
from evenstream.policies.retrieval import Retrieval


@register("er-up")
@dataclass
class ERUp(Replay):
    """Keep the incoming batch; draw q = ceil(b / present classes) rows of every other class."""

    citation = "the paper's over-sampling baseline"
    cost = "F(n) + G(n), n = b + b / present classes for each absent class"

    def make_retrieval(self) -> Retrieval:
        """Over-sampling."""
        return OverSampledAbsentClasses()


class OverSampledAbsentClasses(Retrieval):
    """Replays as many rows of each absent class as a present one has on average."""

    def pick(self, step: Step, count: int) -> Rows:
        """Stored rows of each class that is not in the incoming batch, whatever `count` says."""
        present = torch.unique(step.incoming.y)
        quota = -(-len(step.incoming) // len(present))
        labels = step.memory.field(Y) if len(step.memory) else step.incoming.y[:0]
        return step.fetch(slots_per_class(labels, quota, step.randomness.retrieve, exclude=present))
