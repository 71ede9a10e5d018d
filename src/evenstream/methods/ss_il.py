"""SS-IL: present and absent classes each have a softmax; a teacher preserves the absent ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Count
from evenstream.core.criterion import Need
from evenstream.core.edits import WHOLE, PerClass, by_name
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import Method, register
from evenstream.methods.parts.distillation import Temperature, distillation
from evenstream.policies.teachers import PeriodicTeacher, TaskEndTeacher, Teacher

FIRST_TASK, TASK = "first_task", "task"


@register("ss-il")
@dataclass
class SSIL(Method):
    """Separated softmax: no incoming row can push an absent class down.

    The original is for known tasks. In this task-free form, the labels of the incoming batch are
    present and all others seen so far are absent; the teacher is renewed every `refresh` steps.
    """

    citation = "Ahn et al., SS-IL: Separated Softmax for Incremental Learning, 2021"
    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher"
    logits_follow_criterion = False
    follows = by_name({FIRST_TASK: PerClass(), TASK: WHOLE})

    refresh: Count = 100
    """Steps between renewals of the teacher; 0 means once at the end of each task, as in the
    original, which needs task boundaries."""
    temperature: Temperature = 2.0
    """Temperature of the distillation."""
    groups: Literal["batch", "task"] = "batch"
    """What present means: in the incoming batch, or new in the current task. The latter, as in the
    original, distils each earlier task separately and needs task boundaries."""
    replayed: Literal["own-group", "seen"] = "own-group"
    """Classes that a replayed row competes with: those of its own group, present or absent, or all
    seen so far. With the former no loss ever compares a present class with an absent one."""

    @property
    def needs(self) -> frozenset[Need]:
        """Boundaries if the groups are tasks; the teacher has its own needs."""
        return frozenset({"boundaries"} if self.groups == "task" else ())

    def make_teacher(self) -> Teacher:
        """Renewed every `refresh` steps, or at task ends."""
        return PeriodicTeacher(self.refresh) if self.refresh else TaskEndTeacher()

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy among each row's rivals, plus distillation on absent classes."""
        x, y = step.joint()
        logits = step.net(x)
        present, old_groups = self.split(step, logits.shape[1])
        rivals = present[y].unsqueeze(1) == present
        if self.replayed == "seen":
            rivals[len(step.incoming) :] = True
        loss = step.ce(logits.masked_fill(~rivals, -math.inf), y)
        return loss + self.distillation(x, logits, old_groups)

    def split(self, step: Step, width: int) -> tuple[Tensor, list[Tensor]]:
        """Which classes are present, and groups of absent ones, as masks over the logits."""
        present = torch.zeros(width, dtype=torch.bool, device=step.incoming.y.device)
        if self.groups == "batch":
            present[step.incoming.y] = True
            return present, [~present]
        first_task, now = self.tensors[FIRST_TASK], int(self.tensors[TASK])
        present[: len(first_task)] = first_task == now
        padded = F.pad(first_task, (0, width - len(first_task)), value=now)
        return present, [padded == earlier for earlier in range(now)]

    def distillation(self, x: Tensor, logits: Tensor, groups: list[Tensor]) -> Tensor:
        """Sum of T²·KL(teacher ‖ student) over groups of classes that the teacher knows."""
        total = logits.new_zeros(())
        assert self.teacher is not None
        if self.teacher.network is None:
            return total
        old = self.teacher.outputs(x)[1]
        for group in groups:
            known = group[: old.shape[1]].nonzero().squeeze(1)
            if len(known) > 1:
                total = total + distillation(
                    logits[:, known], old[:, known], self.temperature, form="kl", scaled=True
                )
        return total

    def on_new_classes(self, learner: LearnerState, first: int) -> None:
        """Record the task in which they arrived."""
        new = torch.full((len(learner.labels) - first,), learner.task, device=learner.device)
        self.tensors[FIRST_TASK] = torch.cat([self.tensors.get(FIRST_TASK, new[:0]), new])

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> None:
        """Record the task."""
        self.tensors[TASK] = torch.tensor(learner.task)
