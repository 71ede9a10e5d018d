"""LwF with the labels trick: distil old classes, and let new ones compete among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.labels_trick import LabelsTrick
from evenstream.methods.parts.distillation import Temperature, distillation
from evenstream.policies.teachers import TaskEndTeacher, Teacher


@register("lwf-lt")
@dataclass
class LwFLabelsTrick(LabelsTrick):
    """LwF without memory, with cross-entropy over the current task's classes only."""

    citation = "a baseline of Zając et al., Prediction Error-based Classification, 2024"
    cost = "F(b) + G(b) + F(b) of the teacher"
    logits_follow_criterion = False
    weighs_rows = False  # the distillation would ignore them
    why_not_las = (
        "Logit Adjusted Softmax leaves absent classes out by itself; take lwf-las and memory=0"
    )

    columns: Literal["batch", "task"] = "task"
    """Classes in the softmax: those of the incoming batch, or those of the current task that have
    arrived so far."""
    weight: Factor = 5.0
    """Weight of the distillation (α)."""
    temperature: Temperature = 2.0
    """Temperature of the distillation."""

    def make_teacher(self) -> Teacher:
        """The network at the end of the last task."""
        return TaskEndTeacher()

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy over the chosen columns, distillation over those the teacher knows."""
        x, y = step.joint()
        logits = step.net(x)
        loss = step.ce(self.at_hand(logits, y), y)
        assert self.teacher is not None
        if not self.teacher.known:
            return loss
        _, targets = self.teacher.outputs(x)
        return loss + self.weight * distillation(logits, targets, self.temperature)
