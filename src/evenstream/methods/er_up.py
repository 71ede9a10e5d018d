"""ER-Up: over-sample old classes from memory until each has as many rows as a present one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from evenstream.learner.rows import Rows
from evenstream.learner.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import ER
from evenstream.methods.parts.balanced import slots_per_class


@register("er-up")
@dataclass
class ERUp(ER):
    """Keep the incoming batch; draw q = ceil(b / present classes) rows of every other class."""

    citation = "the paper's over-sampling baseline"
    cost = "F(n) + G(n), n up to b / present classes times the seen classes"

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The incoming rows and q stored rows of each class that is not among them."""
        present = torch.unique(step.incoming.y)
        quota = -(-len(step.incoming) // len(present))
        labels = step.memory.field("y") if len(step.memory) else step.incoming.y[:0]
        slots = slots_per_class(labels, quota, step.randomness.retrieve, exclude=present)
        return [step.incoming, step.fetch(slots)]
