"""OCS: train on and store incoming samples whose gradients represent the rest and the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from evenstream.bounds import Factor, Share
from evenstream.core.classifier import evaluation_mode
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.methods.parts.per_sample import (
    full_gradients,
    head_gradients,
    mean_full_gradient,
    mean_head_gradient,
)

GRADIENTS = {
    "head": (head_gradients, mean_head_gradient),
    "full": (full_gradients, mean_full_gradient),
}


@register("ocs")
@dataclass
class OCS(Replay):
    """Coreset selection by gradients: similarity - diversity + τ · affinity with the memory."""

    citation = "Yoon et al., Online Coreset Selection for Rehearsal-Based Continual Learning, 2022"
    cost = "F(b) + F(m) + F(b/2+m) + G(b/2+m); gradients=full: also G of each of b rows, and G(m)"

    keep: Share = 0.5
    """Share of the incoming batch to select; 1 is ER."""
    affinity: Factor = 1000.0
    """Weight of the affinity with the memory (the paper's τ)."""
    gradients: Literal["head", "full"] = "head"
    """Gradients of the head only (fast), or of all but BatchNorm (the reference)."""
    selects: Literal["both", "training", "storage"] = "both"
    """Whether only selected rows are used for training, for storage, or for both."""

    @property
    def why_not_exits(self) -> str | None:
        """Head gradients assume a single head."""
        return "use gradients=full with several exits" if self.gradients == "head" else None

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The selected rows, in their original order, and a replayed batch."""
        replayed = step.retrieve()
        count = max(1, round(self.keep * len(step.incoming)))
        if count >= len(step.incoming):
            return [step.incoming, replayed]
        scores = self.scores(step, replayed)
        selected = scores.argsort(descending=True, stable=True)[:count].sort()[0]
        if self.selects != "training":
            step.notes["stored"] = selected
        trained = step.incoming if self.selects == "storage" else step.incoming.take(selected)
        return [trained, replayed]

    def scores(self, step: Step, replayed: Rows) -> Tensor:
        """One score for each incoming row; the memory's gradient is that of the replayed rows."""
        per_row, of_all = GRADIENTS[self.gradients]
        with evaluation_mode(step.network):
            own, logits = per_row(step.network, step.incoming.x, step.incoming.y)
            memory = own.new_zeros(own.shape[1])
            if len(replayed):
                memory = of_all(step.network, replayed.x, replayed.y)
        step.note_logits(step.incoming, logits)
        return selection_scores(own, memory, self.affinity)

    def stored_rows(self, step: Step) -> Tensor | None:
        """Store the same selection."""
        return step.notes.get("stored")


def selection_scores(gradients: Tensor, memory: Tensor, affinity: float) -> Tensor:
    """S - D + τ·A: similarity to the mean, to each other, and to the memory."""
    mean = gradients.mean(0)
    similarity = cosines(gradients, mean.unsqueeze(0)).squeeze(1)
    diversity = cosines(gradients, gradients).mean(1)
    return similarity - diversity + affinity * cosines(gradients, memory.unsqueeze(0)).squeeze(1)


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """All cosines; a zero vector has cosine 0 with everything."""
    norms = a.norm(dim=1).unsqueeze(1) * b.norm(dim=1)
    found: Tensor = a @ b.T / norms.clamp_min(1e-6)
    return found
