"""OCS: train on and store the incoming samples whose gradients speak for the others and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from evenstream.learner.classifier import evaluation_mode
from evenstream.learner.rows import Rows
from evenstream.learner.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import ER
from evenstream.methods.parts.per_sample import full_gradients, head_gradients


@register("ocs")
@dataclass
class OCS(ER):
    """Coreset selection by gradients: similarity - diversity + τ · affinity with the memory."""

    citation = "Yoon et al., Online Coreset Selection for Rehearsal-Based Continual Learning, 2022"
    cost = "per-sample gradients of b + m rows, F(b/2+m) + G(b/2+m)"

    keep: float = 0.5
    """Part of the incoming batch that is trained on and stored."""
    affinity: float = 1000.0
    """Weight of the affinity with the memory (the paper's τ)."""
    gradients: Literal["head", "full"] = "head"
    """Gradients of the head only (fast), or of all parameters (the reference)."""

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The selected rows, in their original order, and a replayed batch."""
        replayed = step.retrieve()
        count = max(1, round(self.keep * len(step.incoming)))
        if count >= len(step.incoming):
            return [step.incoming, replayed]
        per_row = head_gradients if self.gradients == "head" else full_gradients
        with evaluation_mode(step.network):
            own = per_row(step.network, step.incoming.x, step.incoming.y)
            memory = own.new_zeros(own.shape[1])
            if len(replayed):
                memory = per_row(step.network, replayed.x, replayed.y).mean(0)
        scores = selection_scores(own, memory, self.affinity)
        selected = scores.argsort(descending=True, stable=True)[:count].sort()[0]
        step.notes["selected"] = selected
        return [step.incoming.take(selected), replayed]

    def stored_rows(self, step: Step) -> Tensor | None:
        """The same selection goes to the memory."""
        return step.notes.get("selected")


def selection_scores(gradients: Tensor, memory: Tensor, affinity: float) -> Tensor:
    """S - D + τ·A: likeness to the mean, likeness to each other, likeness to the memory."""
    mean = gradients.mean(0)
    similarity = cosines(gradients, mean.unsqueeze(0)).squeeze(1)
    diversity = cosines(gradients, gradients).mean(1)
    return similarity - diversity + affinity * cosines(gradients, memory.unsqueeze(0)).squeeze(1)


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """All cosines; a zero vector has cosine 0 with everything."""
    norms = a.norm(dim=1).unsqueeze(1) * b.norm(dim=1)
    found: Tensor = a @ b.T / norms.clamp_min(1e-6)
    return found
