"""The inference slot: how an input's features and logits become a score for each class.

A rule has no side effects. The class with the highest score is predicted; softmax of the scores
gives probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
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


class PostHocCorrection(InferenceRule):
    """Logits minus τ·log π: the class frequencies leave when predicting, not when training.

    Exact for a network that has converged on a fixed distribution with frequencies π. In a stream
    they keep changing, which is what Logit Adjusted Softmax is for.

    Args:
        tau: strength τ; 0 is argmax of the logits.
        label_counts: tells how often each seen class was trained on; asked once a prediction.
    """

    def __init__(self, tau: float, label_counts: Callable[[], Tensor]) -> None:
        self.tau, self.label_counts = tau, label_counts

    def prepare(self, model: Model) -> Any:
        """τ·log π; a class counts as one row at least."""
        counts = self.label_counts().clamp_min(1)
        return self.tau * (counts / counts.sum()).log().float()

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The corrected logits."""
        corrected: Tensor = outputs.logits - prepared.to(outputs.logits.device)
        return corrected


class NormalisedWeights(InferenceRule):
    """Logits with w_c / ‖w_c‖^τ: no class wins by a longer weight. By default without bias."""

    def __init__(self, power: float = 1.0, keep_bias: bool = False) -> None:
        self.power, self.keep_bias = power, keep_bias

    def logits(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Features times normalised weights; a weight of length zero stays."""
        norms = weight.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return F.linear(features, weight / norms**self.power, bias if self.keep_bias else None)

    def prepare(self, model: Model) -> Any:
        """The head."""
        return model.network.head.weight, model.network.head.bias

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The normalised logits of the seen classes."""
        weight, bias = (part[: outputs.logits.shape[1]] for part in prepared)
        return self.logits(outputs.features, weight, bias)


class CosineSimilarity(InferenceRule):
    """Scaled cosine between features and class weights: neither's length counts, nor the bias."""

    def __init__(self, scale: float = 10.0) -> None:
        self.scale = scale

    def logits(self, features: Tensor, weight: Tensor) -> Tensor:
        """The scale times cos(f, w_c)."""
        return self.scale * F.linear(F.normalize(features, dim=1), F.normalize(weight, dim=1))

    def prepare(self, model: Model) -> Any:
        """The head's weights."""
        return model.network.head.weight

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The similarities with the seen classes."""
        return self.logits(outputs.features, prepared[: outputs.logits.shape[1]])
