"""EWC: pull weights that earlier tasks depend on back to where those tasks left them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.bounds import Factor, Share
from evenstream.core.edits import WHOLE, Follows, PerClass
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.errors import InputError
from evenstream.methods.base import register
from evenstream.methods.fine_tune import FineTune
from evenstream.methods.parts.fisher import (
    FisherForm,
    fisher_diagonal,
    grown,
    quadratic_penalty,
    rows_at_once,
)

FISHER, ANCHOR, OFFSET = "fisher/", "anchor/", "offset"

REACH = 1.5
"""How far the penalty may move a weight in one SGD step, relative to its distance from θ*: 1 goes
right there, and from 2 on each step ends further away than it began."""


@register("ewc")
@dataclass
class EWC(FineTune):
    """Cross-entropy + λ Σ F·(θ - θ*)², with the Fisher information F of finished tasks.

    F is measured in a second pass over each task's data, so this is not strictly online.
    """

    citation = "Kirkpatrick et al., Overcoming Catastrophic Forgetting in Neural Networks, 2017"
    cost = "F(b) + G(b), at the end of a task the gradient of each of its rows by itself"
    needs = frozenset({"boundaries", "second_pass"})
    logits_follow_criterion = False
    weighs_rows = False  # the Fisher information would ignore them
    if_not_finite = "Lower the penalty's weight (ewc:strength=...) or the learning rate"

    strength: Factor = 90.0
    """λ, the weight of the penalty."""
    tasks: Literal["online", "separate"] = "online"
    """online: one accumulated F around the newest weights (Schwarz et al., 2018). separate: a
    penalty for each task around its final weights."""
    gamma: Share = 1.0
    """Share of the earlier F kept at the end of a task (tasks=online)."""
    fisher: FisherForm = "empirical"
    """mammoth weights each row by p(y|x), as that library does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tasks == "separate" and self.gamma != 1:
            raise InputError("gamma is an option of tasks=online")

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy plus the penalty, once there is one."""
        loss = super().loss(step)
        if OFFSET not in self.tensors:
            return loss
        weights = {n: p for n, p in step.network.named_parameters() if p.requires_grad}
        factor = 2 * step.lr * self.strength
        most = REACH / factor if factor else math.inf
        fishers = {name: fisher.clamp(max=most) for name, fisher in self.kept(FISHER).items()}
        penalty = quadratic_penalty(weights, self.kept(ANCHOR), fishers)
        return loss + self.strength * (penalty + self.tensors[OFFSET])

    def kept(self, kind: str) -> dict[str, Tensor]:
        """The tensors of one kind, by the names of the parameters they belong to."""
        return {
            name.removeprefix(kind): value
            for name, value in self.tensors.items()
            if name.startswith(kind)
        }

    def how(self, name: str) -> Follows:
        """Head rows follow their classes; everything else stays, including the accumulated sum."""
        return PerClass() if name.endswith(("/head.weight", "/head.bias")) else WHOLE

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Measure the task's Fisher information and add it to the rest."""
        network = learner.network
        assert data is not None  # see `needs`
        size = rows_at_once(network)
        chunks = zip(torch.split(data.raw, size), torch.split(data.y, size), strict=True)
        rows = ((learner.preprocess.plain(raw), y) for raw, y in chunks)
        fishers, anchors = self.kept(FISHER), self.kept(ANCHOR)
        offset = self.tensors.get(OFFSET, torch.zeros((), device=learner.device))
        for name, fisher in fisher_diagonal(network, rows, self.fisher).items():
            anchor = network.get_parameter(name).detach().clone()
            if name in fishers:
                before = grown(fishers[name], fisher), grown(anchors[name], anchor)
                if self.tasks == "online":
                    fisher = fisher + self.gamma * before[0]
                else:
                    fisher, anchor, rest = add_penalties(*before, fisher, anchor)
                    offset = offset + rest
            self.tensors[FISHER + name], self.tensors[ANCHOR + name] = fisher, anchor
        self.tensors[OFFSET] = offset


def add_penalties(f1: Tensor, a1: Tensor, f2: Tensor, a2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """f, a and a constant c with f1·(θ-a1)² + f2·(θ-a2)² = f·(θ-a)² + c for every θ.

    So the penalties of any number of tasks need only the space of one.
    """
    f = f1 + f2
    share = torch.where(f > 0, f2 / f, 1.0)
    return f, torch.lerp(a1, a2, share), (f1 * share * (a2 - a1).square()).sum()
