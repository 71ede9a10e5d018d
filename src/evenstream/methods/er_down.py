"""ER-Down: under-sample the incoming batch so that no present class outweighs an old one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.methods.parts.balanced import slots_per_class


@register("er-down")
@dataclass
class ERDown(Replay):
    """Keep at most k = max(1, m / seen classes) incoming rows of each class for training."""

    citation = "the paper's under-sampling baseline"
    cost = "F(n) + G(n), n at most b + m"

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """A few incoming rows of each present class, and a replayed batch as in ER."""
        quota = max(1, step.replay_batch // step.n_classes)
        kept = slots_per_class(
            step.incoming.y, quota, step.randomness.method, replacement=False
        ).sort()[0]
        return [step.incoming.take(kept.to(step.incoming.y.device)), step.retrieve()]
