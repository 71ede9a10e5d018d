"""LUCIR's less-forget constraint: preserve the direction of the features."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.geodesic import cosine_distance
from evenstream.methods.parts.taught_replay import FeaturesAndLogits, TaughtReplay


@register("lucir")
@dataclass
class LUCIR(TaughtReplay):
    """LUCIR's distillation alone, as the paper uses it online."""

    citation = "Hou et al., Learning a Unified Classifier Incrementally via Rebalancing, 2019"

    weight: Factor = 5.0
    """Weight of the distance between features (λ)."""
    adaptive: bool = False
    """Multiply the weight by √(classes the teacher knows / new ones), as the original does."""

    def distance(self, step: Step, new: FeaturesAndLogits, old: FeaturesAndLogits) -> Tensor:
        """1 - cos of old and new features."""
        (features, _), (old_features, old_logits) = new, old
        distance = cosine_distance(old_features, features)
        if not self.adaptive:
            return distance
        known = old_logits.shape[1]
        return distance * adaptation(known, step.n_classes - known)


def adaptation(old: int, new: int) -> float:
    """√(old classes / new ones), as in the public code; no new classes count as one."""
    return math.sqrt(old / max(1, new))
