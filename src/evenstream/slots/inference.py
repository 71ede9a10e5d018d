"""The inference slot: how an input's features and logits become a score for each class.

A rule has no side effects. The class with the highest score is predicted; softmax of the scores
gives probabilities. Nearest class mean, normalised weights and the like are further rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from evenstream.augment import Preprocess
from evenstream.learner.classifier import Classifier
from evenstream.learner.memory import Memory


@dataclass(frozen=True)
class Model:
    """What a rule may read besides the inputs at hand."""

    network: Classifier
    memory: Memory
    preprocess: Preprocess


@dataclass(frozen=True)
class Outputs:
    """A batch on its way to a decision, one row for each input."""

    x: Tensor
    features: Tensor
    logits: Tensor


class InferenceRule:
    """Scores the seen classes."""

    def prepare(self, model: Model) -> Any:
        """What the rule needs once for a whole call of `predict` (class means, weights, ...)."""
        return None

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """One score for each input and seen class."""
        raise NotImplementedError


class ArgMax(InferenceRule):
    """The raw logits, without any adjustment, as the paper does at test time."""

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The logits themselves."""
        return outputs.logits
