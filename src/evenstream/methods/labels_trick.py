"""The labels trick: a softmax over present classes only, which leaves absent ones alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.core.classes import class_mask, pad_classes
from evenstream.core.criterion import Need
from evenstream.core.edits import PerClass, by_name
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.fine_tune import FineTune

IN_TASK = "in_task"


@register("labels-trick")
@dataclass
class LabelsTrick(FineTune):
    """Fine-tuning with the columns of absent classes left out of the softmax.

    Logit Adjusted Softmax (window 1) does this, and also weights the present classes by count.
    """

    citation = "Zeno et al., Task Agnostic Continual Learning Using Online Variational Bayes, 2018"
    follows = by_name({IN_TASK: PerClass(added=True)})

    columns: Literal["batch", "task"] = "batch"
    """Classes in the softmax: those of the incoming batch, or those of the current task that have
    arrived so far, which needs task boundaries."""

    @property
    def needs(self) -> frozenset[Need]:
        """Boundaries, only if the task's classes are used."""
        return frozenset({"boundaries"} if self.columns == "task" else ())

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy over the chosen columns."""
        x, y = step.joint()
        return step.ce(self.at_hand(step.net(x), y), y)

    def at_hand(self, logits: Tensor, y: Tensor) -> Tensor:
        """The logits with -inf for the classes that are not in the softmax."""
        present = class_mask(y, logits.shape[1])
        if self.columns == "task":
            present |= pad_classes(self.tensors[IN_TASK], len(present))
            self.tensors[IN_TASK] = present
        return logits.masked_fill(~present, -math.inf)

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> None:
        """Start over: no class of the new task has arrived yet."""
        self.tensors[IN_TASK] = torch.zeros(0, dtype=torch.bool, device=learner.device)
