"""MRO: memory replay only; the stream just feeds the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from evenstream.bounds import Count
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import Method, register


@dataclass
class MemoryOnly(Method):
    """Base of MRO and CLIB: every training row comes from memory."""

    cost = "F(b+m) + G(b+m)"
    needs = frozenset({"memory"})
    trains_on_incoming = False

    rows: Count = 0
    """Replayed rows in each step; 0 means as many as ER uses, b + m (the paper does not say)."""

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """A draw from memory as large as ER's whole batch."""
        return [step.retrieve(self.rows or step.batch + step.replay_batch)]

    def loss(self, step: Step) -> Tensor | None:
        """Mean loss over the replayed rows; no update while the memory is empty."""
        if not len(step.groups[0]):
            return None
        x, y = step.joint()
        return step.ce(step.net(x), y)


@register("mro")
@dataclass
class MRO(MemoryOnly):
    """Train only on replayed rows, so the classes are as balanced as the memory."""

    citation = "Chrysakis and Moens, Online Bias Correction for Task-Free Continual Learning, 2023"

    weighs_rows = True

    update_first: bool = False
    """Store the batch before the step trains rather than after it."""

    @property
    def memory_first(self) -> bool:
        """As set by the option."""
        return self.update_first
