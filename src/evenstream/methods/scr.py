"""SCR: supervised contrastive replay; predict the class whose stored samples lie nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.bounds import Positive, Within
from evenstream.core.criterion import Need
from evenstream.core.edits import WHOLE, by_name
from evenstream.core.heads import Head
from evenstream.core.memory import X, Y
from evenstream.core.part import TaskData
from evenstream.core.rows import Rows, joint_view
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.contrast import supervised_contrastive
from evenstream.methods.parts.projection import PROJECTION, add_projection
from evenstream.methods.parts.two_views import TwoViews
from evenstream.policies.rules import InferenceRule
from evenstream.policies.rules.from_memory import NearestClassMean

REVIEW_FACTOR = 0.1


@register("scr")
@dataclass
class SCR(TwoViews):
    """Pull views of the same class together and push others apart; the head is not trained."""

    citation = "Mai et al., Supervised Contrastive Replay, 2021"
    cost = "F(2b+2m) + G(2b+2m)"
    trained_groups = ("network", PROJECTION)
    why_not_exits = "it does not train the head"
    why_not_las = "it has no softmax over classes that could be adjusted"
    logits_follow_criterion = False
    follows = by_name({PROJECTION: WHOLE})

    temperature: Annotated[float, Within(0.001)] = 0.07
    """T of the contrastive loss."""
    projection: Positive = 128
    """Dimensions of the projection, an MLP with one hidden layer as wide as the features."""
    review: bool = False
    """At the end of each task, one pass over the memory with a tenth of the gradient, as the
    public code does. Needs task boundaries."""

    @property
    def needs(self) -> frozenset[Need]:
        """A memory, and boundaries for the review."""
        return frozenset({"memory", "boundaries"} if self.review else {"memory"})

    def make_rule(self) -> InferenceRule:
        """Nearest class mean of the features, without the projection."""
        return NearestClassMean()

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """Other rules use a head that is not trained."""
        if isinstance(rule, NearestClassMean):
            return None
        return f"{self.name} does not train the head, so only the rule ncm can predict"

    def on_setup(self, learner: LearnerState) -> None:
        """Create the second view and the projection."""
        super().on_setup(learner)
        size = learner.network.head.in_features
        layers = nn.Linear(size, size), nn.ReLU(), nn.Linear(size, self.projection)
        add_projection(self, learner, nn.Sequential(*layers))

    def loss(self, step: Step) -> Tensor | None:
        """The contrastive loss over both views of all rows; none while the memory is empty."""
        if not len(step.memory):
            return None
        x, y = step.joint()
        return self.contrast(step.forward(x)[0], y)

    def contrast(self, features: Tensor, labels: Tensor) -> Tensor:
        """The contrastive loss of projected features."""
        embeddings = F.normalize(self.modules[PROJECTION](features), dim=1)
        return supervised_contrastive(embeddings, labels, self.temperature)

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Review the memory in random order, in batches of the size of a step."""
        if not self.review or not learner.built:
            return
        memory, randomness, options = learner.memory, learner.randomness, learner.options
        order = torch.randperm(len(memory), generator=randomness.method)
        for slots in torch.split(order, options.batch + options.replay_batch):
            stored = memory.rows(slots)
            rows = Rows(stored[X], stored[Y], learner.preprocess, randomness.augment)
            features = learner.network.features(joint_view(self.two_views(rows)))
            loss = self.contrast(features, rows.y.repeat(2))
            learner.update(REVIEW_FACTOR * loss, *self.trained_groups)
