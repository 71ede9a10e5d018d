"""Fine-tuning: train on the stream as it arrives, without any memory (the lower bound)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay


@register("fine-tune")
@dataclass
class FineTune(Replay):
    """Minimise cross-entropy on each incoming batch; forgets what the stream no longer shows."""

    citation = "the paper's lower bound"
    cost = "F(b) + G(b)"
    uses_memory = False

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The incoming batch only."""
        return [step.incoming]
