"""Distillation with a teacher's softened outputs as targets."""

from __future__ import annotations

from typing import Annotated, Literal

import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Within

DistillationForm = Literal["ce", "kl"]
Temperature = Annotated[float, Within(1e-3)]


def distillation(
    student: Tensor,
    teacher: Tensor,
    temperature: float,
    *,
    form: DistillationForm = "ce",
    scaled: bool = False,
) -> Tensor:
    """Mean over rows of the cross-entropy between q = softmax(teacher/T) and softmax(student/T).

    Both are logits; the student's columns for classes unknown to the teacher are left out.
    `kl` subtracts the entropy of q, which changes the value but not the gradient. `scaled`
    multiplies by T², so that the gradient does not shrink as T grows.
    """
    student = student[:, : teacher.shape[1]] / temperature
    target = F.softmax(teacher / temperature, 1)
    if form == "ce":
        loss = F.cross_entropy(student, target)
    else:
        loss = F.kl_div(F.log_softmax(student, 1), target, reduction="batchmean")
    return temperature * temperature * loss if scaled else loss
