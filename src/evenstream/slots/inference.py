"""The inference slot: how features and logits become a score for each class, without side effects.

The class with the highest score is predicted. Nearest class mean, normalised weights and the like
are further rules of the same form.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from evenstream.learner.classifier import Classifier
from evenstream.learner.memory import Memory


@dataclass(frozen=True)
class Outputs:
    """What a rule may look at: one row for each input."""

    features: Tensor
    logits: Tensor
    network: Classifier
    memory: Memory


class InferenceRule:
    """Scores classes for the inputs at hand; softmax of the scores gives probabilities."""

    def scores(self, outputs: Outputs) -> Tensor:
        """One score for each input and seen class."""
        raise NotImplementedError


class ArgMax(InferenceRule):
    """The raw logits, without any adjustment, as the paper does at test time."""

    def scores(self, outputs: Outputs) -> Tensor:
        """The logits themselves."""
        return outputs.logits
