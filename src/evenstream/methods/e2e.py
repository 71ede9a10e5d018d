"""E2E: train with distillation, then fine-tune on the same number of rows of each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Count, Factor
from evenstream.core.classifier import Classifier
from evenstream.core.optimizers import learning_rate
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.distillation import Temperature, distillation
from evenstream.methods.parts.taskwise import (
    Exemplars,
    TaskwiseMethod,
    balanced_batches,
    refill_by_class,
)


@register("e2e")
@dataclass
class E2E(TaskwiseMethod):
    """End-to-end incremental learning: two stages per task, the second one balanced.

    In the second stage no class is rarer than another, so there is nothing to adjust: it uses plain
    cross-entropy in `e2e-las` too.
    """

    citation = "Castro et al., End-to-End Incremental Learning, 2018"
    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher, m = M/steps; the same for fine-tuning"

    weight: Factor = 0.5
    """Weight of the distillation, in both stages."""
    temperature: Temperature = 2.0
    """Temperature of the distillation."""
    fine_tune_lr: Factor = 0.003
    """Learning rate of the second stage."""
    fine_tune_epochs: Count = 30
    """Epochs of the second stage; 0 leaves it out."""
    form: Literal["ce", "bce"] = "ce"
    """Cross-entropy, or (in one public code) binary cross-entropy for the softmax output of each
    class; for both classification and distillation, in both stages."""
    distilled: Literal["all", "old"] = "all"
    """Rows that the first stage distils on: all, or (in that code) only those of old classes."""
    exemplars: Exemplars = "random"
    """Which rows of a class are kept."""

    @property
    def why_not_las(self) -> str | None:
        """Only a softmax over all classes has a prior to remove."""
        return None if self.form == "ce" else "form=bce scores each class separately"

    def loss(self, step: Step) -> Tensor:
        """CE + weight·KD on the old columns."""
        x, y = step.joint()
        logits = step.net(x)
        loss = step.ce(logits, y) if self.form == "ce" else self.classification(logits, y)
        if self.old_network is None:
            return loss
        _, targets = self.old_network.outputs(x)
        rows = y < (targets.shape[1] if self.distilled == "old" else logits.shape[1])
        if bool(rows.any()):
            loss = loss + self.weight * self.kept(logits[rows], targets[rows])
        return loss

    def classification(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The plain classification loss."""
        if self.form == "ce":
            return F.cross_entropy(logits, labels)
        return yes_or_no(logits, F.one_hot(labels, logits.shape[1]))

    def kept(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The distillation loss, on the columns of the targets."""
        if self.form == "ce":
            return distillation(logits, targets, self.temperature)
        columns = logits[:, : targets.shape[1]]
        return yes_or_no(columns / self.temperature, (targets / self.temperature).softmax(1))

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """From the second task on, balanced fine-tuning; then refill the memory."""
        assert data is not None
        if self.old_network is not None:
            with learning_rate(learner.optimizer, self.fine_tune_lr):
                self.fine_tune(learner, learner.network, data)
        refill_by_class(learner, data, self.exemplars)

    def fine_tune(self, learner: LearnerState, network: Classifier, data: TaskData) -> None:
        """CE + weight·KD on all columns, from the network after the first stage."""
        first_stage, seen = learner.copy_network(), len(learner.labels)
        for rows in balanced_batches(learner, data, self.fine_tune_epochs):
            logits = network(rows.x)
            kept = self.kept(logits, first_stage(rows.x)[:, :seen])
            learner.update(self.classification(logits, rows.y) + self.weight * kept)


def yes_or_no(logits: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy of softmax outputs and targets, averaged over rows and classes."""
    log_p = logits.log_softmax(1)
    log_not_p = torch.log1p(-log_p.exp().clamp_max(1 - 1e-6))
    return -(targets * log_p + (1 - targets) * log_not_p).mean()
