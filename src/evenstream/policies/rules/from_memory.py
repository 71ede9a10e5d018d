"""The inference rule that uses the memory instead of the head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.heads import cosines
from evenstream.core.memory import X, Y
from evenstream.core.outputs import InferenceContext, Outputs, plain_batches
from evenstream.policies.rules.rule import InferenceRule, register_rule


@register_rule("ncm")
@dataclass
class NearestClassMean(InferenceRule):
    """Predicts the class whose stored samples have the nearest mean, on features of length one.

    The means have length one too, so the nearest in Euclidean distance is the one with the highest
    cosine. A class without stored samples is never predicted; with an empty memory the logits
    decide.
    """

    needs = frozenset({"memory"})

    scale: Factor = 10.0
    """Factor on the cosines; affects only probabilities."""

    @property
    def asked_every(self) -> int:
        """Never: each time, the means would have to be computed from the whole memory."""
        return 0

    def prepare(self, context: InferenceContext) -> Any:
        """The classes in memory, and the sum of features of each, which points in the same
        direction as the mean.

        Un-augmented, in eval mode.
        """
        memory, network = context.memory, context.network
        if not len(memory):
            return None
        classes, which = torch.unique(memory.field(Y), return_inverse=True)
        sums = torch.zeros(len(classes), network.head.in_features, device=memory.device)
        batches = plain_batches(context.preprocess, memory.field(X))
        features = torch.cat([network.features(x) for x in batches])
        return classes, sums.index_add_(0, which, F.normalize(features, dim=1))

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The scaled cosines with the means."""
        if prepared is None:
            return outputs.logits
        classes, sums = prepared
        scores = torch.full_like(outputs.logits, -math.inf)
        scores[:, classes] = self.scale * cosines(outputs.features, sums)
        return scores
