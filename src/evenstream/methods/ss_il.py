"""SS-IL: present and absent classes have a softmax each, and a teacher keeps the absent ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.learner.classifier import frozen_copy
from evenstream.learner.step import Step
from evenstream.methods.base import Method, register


@register("ss-il")
@dataclass
class SSIL(Method):
    """Separated softmax: no row of a present class can push an absent one down.

    Task-free form: present are the labels of the incoming batch, absent all others seen so far;
    the teacher is renewed every `refresh` steps instead of at task ends.
    """

    citation = "Ahn et al., SS-IL: Separated Softmax for Incremental Learning, 2021"
    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher"
    logits_follow_criterion = False

    refresh: int = 100
    """Steps between two copies of the network into the teacher."""
    temperature: float = 2.0
    """Of the distillation."""

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy within each row's own group, plus distillation on the absent classes."""
        x, y = step.joint()
        logits = step.net(x)
        present = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
        present[step.incoming.y] = True
        own_group = present[y].unsqueeze(1) == present
        loss = step.ce(logits.masked_fill(~own_group, -math.inf), y)
        return loss + self.distillation(x, logits, ~present)

    def distillation(self, x: Tensor, logits: Tensor, absent: Tensor) -> Tensor | float:
        """T²·KL(teacher ‖ student) over the absent classes that the teacher knows."""
        teacher = self.modules.get("teacher")
        if teacher is None:
            return 0.0
        with torch.no_grad():
            old = teacher(x)
        known = absent[: old.shape[1]].nonzero().squeeze(1)
        if len(known) < 2:
            return 0.0
        t = self.temperature
        student = F.log_softmax(logits[:, known] / t, 1)
        target = F.softmax(old[:, known] / t, 1)
        return t * t * F.kl_div(student, target, reduction="batchmean")

    def after_step(self, step: Step) -> None:
        """Renew the teacher now and then."""
        if step.number % self.refresh == 0:
            self.modules["teacher"] = frozen_copy(step.network)
