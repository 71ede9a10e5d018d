"""LUCIR as published: cosine classifier, imprinted rows, feature distillation and a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Count, Factor, Positive
from evenstream.core.classifier import evaluation_mode
from evenstream.core.heads import Cosine, Head, cosines
from evenstream.core.optimizers import learning_rate
from evenstream.core.outputs import plain_outputs
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.lucir import adaptation
from evenstream.methods.parts.geodesic import cosine_distance
from evenstream.methods.parts.taskwise import (
    Exemplars,
    TaskwiseMethod,
    balanced_batches,
    refill_by_class,
)
from evenstream.policies.rules import InferenceRule


@register("lucir-full")
@dataclass
class LUCIRFull(TaskwiseMethod):
    """All parts of LUCIR; `lucir` is its distillation alone, for online streams.

    Rows of old classes in the head are frozen. Features keep their sign if the network can leave
    out its last ReLU (ResNets can).
    """

    citation = "Hou et al., Learning a Unified Classifier Incrementally via Rebalancing, 2019"
    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher, m = M/steps"

    weight: Factor = 5.0
    """Weight of the distance between features; times √(old classes / new ones)."""
    hardest: Positive = 2
    """New classes that a row of an old one must keep away from."""
    margin: Factor = 0.5
    """How much higher the cosine with its own class must be."""
    exemplars: Exemplars = "herding"
    """Which rows of a class are kept."""
    fine_tune_epochs: Count = 0
    """Epochs of a class-balanced fine-tuning of the whole head at task ends (20 in Mammoth)."""
    fine_tune_lr: Factor = 0.01
    """Learning rate of that fine-tuning."""

    def make_head(self) -> Head:
        """Cosines with a learned scale."""
        return Cosine(scale=1.0, scale_learned=True)

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """Its loss is defined on cosines."""
        if isinstance(head, Cosine):
            return None
        return "lucir-full needs a cosine head; leave head=cosine unchanged"

    def on_setup(self, learner: LearnerState) -> None:
        """Leave out the last ReLU, if the network can."""
        if hasattr(learner.network.backbone, "final_relu"):
            learner.network.backbone.final_relu = False  # type: ignore[assignment]  # no tensor

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> Sequence[int] | None:
        """Imprint: rows of new classes point to the mean direction of their features."""
        assert data is not None
        if self.old_network is not None:
            known, weight = self.old_network.known, learner.network.head.weight
            new = data.y >= known
            if bool(new.any()):
                features, _ = plain_outputs(learner, data.raw[new])
                learner.about_to_change([weight])
                with torch.no_grad():
                    rows = imprinted(features, data.y[new] - known, weight[:known])
                    weight[known : known + len(rows)] = rows
        return super().on_task_start(learner, data)

    def loss(self, step: Step) -> Tensor:
        """CE on scaled cosines + λ·(1 - cos of old and new features) + margin ranking."""
        x, y = step.joint()
        features, logits = step.forward(x)
        loss = step.ce(logits, y)
        if self.old_network is None:
            return loss
        known, seen = self.old_network.known, step.n_classes
        old_features, _ = self.old_network.outputs(x)
        weight = self.weight * adaptation(known, seen - known)
        similarity = cosines(features, step.network.head.weight[:seen])
        ranking = margin_ranking(similarity, y, known, self.hardest, self.margin)
        return loss + weight * cosine_distance(old_features, features) + ranking

    def after_step(self, step: Step) -> None:
        """Restore the frozen rows, whatever momentum or weight decay did to them."""
        if self.old_network is not None and self.old_network.network is not None:
            frozen = self.old_network.network.head.weight[: self.old_network.known]
            with torch.no_grad():
                step.network.head.weight[: len(frozen)] = frozen

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Fine-tune the head if requested, then refill the memory."""
        assert data is not None
        if self.old_network is not None:
            with learning_rate(learner.optimizer, self.fine_tune_lr):
                for rows in balanced_batches(learner, data, self.fine_tune_epochs):
                    with evaluation_mode(learner.network):
                        features = learner.network.features(rows.x)
                    loss = F.cross_entropy(learner.network.logits(features), rows.y)
                    learner.update(loss, "head")
        refill_by_class(learner, data, self.exemplars)


def imprinted(features: Tensor, labels: Tensor, old_rows: Tensor) -> Tensor:
    """A row per label: the mean direction of its features, with the mean length of old rows."""
    sums = features.new_zeros(int(labels.max()) + 1, features.shape[1])
    sums.index_add_(0, labels, F.normalize(features, dim=1))
    length: Tensor = old_rows.norm(dim=1).mean()
    return length * F.normalize(sums, dim=1)


def margin_ranking(
    similarity: Tensor, labels: Tensor, old: int, hardest: int, margin: float
) -> Tensor:
    """Mean of max(0, m - cos_y + cos_k) over rows of old classes and their hardest new classes k.

    The first `old` columns of the cosines are old classes. Zero without such rows or new classes.
    """
    rows = labels < old
    hardest = min(hardest, similarity.shape[1] - old)
    if not bool(rows.any()) or not hardest:
        return similarity.new_zeros(())
    own = similarity[rows].gather(1, labels[rows].unsqueeze(1))
    rivals = similarity[rows, old:].topk(hardest, 1).values
    return (margin - own + rivals).clamp_min(0).mean()
