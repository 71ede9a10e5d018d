"""SS-IL: present and absent classes have a softmax each, and a teacher keeps the absent ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.learner.classifier import frozen_copy
from evenstream.learner.step import Step
from evenstream.methods.base import Method, Need, TaskData, register
from evenstream.methods.bounds import Count, Within

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner

TEACHER, KNOWN, FIRST_TASK, TASK = "teacher", "known", "first_task", "task"


@register("ss-il")
@dataclass
class SSIL(Method):
    """Separated softmax: no row of a present class can push an absent one down.

    The original is for known tasks. Task-free form: present are the labels of the incoming batch,
    absent all others seen so far; the teacher is renewed every `refresh` steps.
    """

    citation = "Ahn et al., SS-IL: Separated Softmax for Incremental Learning, 2021"
    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher"
    logits_follow_criterion = False

    refresh: Count = 100
    """Steps between two copies of the network into the teacher; 0 means one at each task's end, as
    in the original, which needs task boundaries."""
    temperature: Annotated[float, Within(1e-3)] = 2.0
    """Of the distillation."""
    groups: Literal["batch", "task"] = "batch"
    """What present means: in the incoming batch, or new in the current task. The latter is the
    original's, distils each earlier task by itself, and needs task boundaries."""

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]  # a constant for other methods
        """Boundaries only where the original's tasks are asked for."""
        return frozenset({"boundaries"} if self.groups == "task" or not self.refresh else ())

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy within each row's own group, plus distillation on the absent classes."""
        x, y = step.joint()
        logits = step.net(x)
        present, old_groups = self.split(step, logits.shape[1])
        own_group = present[y].unsqueeze(1) == present
        loss = step.ce(logits.masked_fill(~own_group, -math.inf), y)
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
        """Sum of T²·KL(teacher ‖ student) over groups, each of classes that the teacher knows."""
        total = logits.new_zeros(())
        if TEACHER not in self.modules:
            return total
        with torch.no_grad():
            old = self.modules[TEACHER](x)
        t = self.temperature
        for group in groups:
            known = group[: int(self.tensors[KNOWN])].nonzero().squeeze(1)
            if len(known) > 1:
                student = F.log_softmax(logits[:, known] / t, 1)
                target = F.softmax(old[:, known] / t, 1)
                total = total + t * t * F.kl_div(student, target, reduction="batchmean")
        return total

    def after_step(self, step: Step) -> None:
        """Renew the teacher now and then."""
        if self.refresh and step.number % self.refresh == 0:
            self.modules[TEACHER] = frozen_copy(step.network)
            self.tensors[KNOWN] = torch.tensor(step.n_classes)

    def on_new_classes(self, learner: Learner, first: int) -> None:
        """Note in which task they came."""
        new = torch.full((len(learner.labels) - first,), learner.task, device=learner.device)
        self.tensors[FIRST_TASK] = torch.cat([self.tensors.get(FIRST_TASK, new[:0]), new])

    def on_task_start(self, learner: Learner, data: TaskData | None) -> None:
        """Note which task it is."""
        self.tensors[TASK] = torch.tensor(learner.task)

    def on_task_end(self, learner: Learner, data: TaskData | None) -> None:
        """Renew the teacher, if that is when."""
        if not self.refresh and learner.network is not None:
            self.modules[TEACHER] = learner.copy_network()
            self.tensors[KNOWN] = torch.tensor(len(learner.labels))
