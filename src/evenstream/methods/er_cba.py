"""ER-CBA: a small network corrects the logits in training, so that none is needed at test time.

The continual bias adaptor g_ω maps class probabilities to a correction of the logits. It is a
bilevel problem: ω is chosen so that a head updated *through* the correction does well *without* it
on the memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.bounds import Factor, Positive
from evenstream.core.classes import pad_classes
from evenstream.core.criterion import Need
from evenstream.core.edits import WHOLE, Regrouping, by_name
from evenstream.core.optimizers import Adam
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import Method, register
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.policies.retrieval import draw_distinct

Labelled = tuple[Tensor, Tensor]
STARTED = "started"


class Adaptor(nn.Module):
    """g_ω: probabilities -> hidden -> correction; room for `width` classes, zeros where unseen."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        for layer in (self.inner, self.outer):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, logits: Tensor) -> Tensor:
        """The correction; no gradient flows through its input."""
        n_classes = logits.shape[1]
        probabilities = F.softmax(logits.detach(), 1)
        padded = F.pad(probabilities, (0, self.inner.in_features - n_classes))
        corrected: Tensor = self.outer(F.relu(self.inner(padded)))[:, :n_classes]
        return corrected


@register("er-cba")
@dataclass
class ERCBA(Method):
    """ER through a learned correction of the logits that is dropped at test time.

    The adaptor is always trained with plain cross-entropy; `er-cba-las` adjusts the loss of the
    network.
    """

    citation = (
        "Wang et al., CBA: Improving Online Continual Learning via Continual Bias Adaptor, 2023"
    )
    cost = "F(b) + F(m) + G(b+m), every `period` steps F(b+2m) more"
    why_not_exits = "it learns one correction of the logits per step"
    follows = by_name({STARTED: WHOLE})

    adaptor_lr: Factor = 0.001
    """Learning rate of the adaptor's Adam (0.001 on C-CIFAR10, 0.01 on C-CIFAR100)."""
    period: Positive = 5
    """Steps between two updates of the adaptor."""
    hidden: Positive = 256
    """Hidden units of the adaptor."""
    start: Literal["old-class", "second-task"] = "old-class"
    """When the adaptor starts to learn: once the memory holds a class that is not in the incoming
    batch, or with the second task, as in the public code, which needs task boundaries."""

    @property
    def needs(self) -> frozenset[Need]:
        """Boundaries only if the second task has to be known."""
        return frozenset({"boundaries"} if self.start == "second-task" else ())

    def on_setup(self, learner: LearnerState) -> None:
        """Create the adaptor."""
        self._fit(learner)

    def on_new_classes(self, learner: LearnerState, first: int) -> None:
        """Make room for more classes; what was learned stays."""
        self._fit(learner)

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> None:
        """The second task is one of the two signals to start."""
        if self.start == "second-task" and learner.task > 0:
            self.tensors[STARTED] = torch.tensor(True)

    @property
    def adaptor(self) -> Adaptor:
        """g_ω."""
        module = self.modules["adaptor"]
        assert isinstance(module, Adaptor)
        return module

    def _fit(self, learner: LearnerState) -> None:
        """An adaptor for the next power of two of classes, with the old weights in its corner."""
        n_classes = max(len(learner.labels), learner.network.head.out_features)
        if "adaptor" in self.modules and n_classes <= self.adaptor.inner.in_features:
            return
        wide = Adaptor(1 << max(4, (n_classes - 1).bit_length()), self.hidden).to(learner.device)
        if "adaptor" in self.modules:
            old, width = self.adaptor, self.adaptor.inner.in_features
            with torch.no_grad():
                wide.inner.weight[:, :width] = old.inner.weight
                wide.inner.bias.copy_(old.inner.bias)
                wide.outer.weight[:width] = old.outer.weight
                wide.outer.bias[:width] = old.outer.bias
        self.modules["adaptor"] = wide
        self.optimizers["adaptor"] = Adam(wide.parameters(), self.adaptor_lr)

    def regroup(self, classes: Regrouping) -> None:
        """Remove the class from the adaptor; the free space at its end is for future classes."""
        adaptor, optimizer = copy.deepcopy((self.adaptor, self.optimizers["adaptor"]))
        inner, outer = adaptor.inner, adaptor.outer
        columns = ((inner.weight, 1), (outer.weight, 0), (outer.bias, 0))
        for parameter, dim in columns:
            kept = [parameter.data, *optimizer.state.get(parameter, {}).values()]
            for values in kept:
                if values.shape == parameter.shape:
                    short = classes.entries(values, dim)
                    values.copy_(
                        torch.cat([short, torch.zeros_like(values.narrow(dim, 0, 1))], dim)
                    )
        self.modules["adaptor"], self.optimizers["adaptor"] = adaptor, optimizer

    def loss(self, step: Step) -> Tensor:
        """Inner loss with a constant correction; now and then, the outer step on ω first."""
        incoming, replayed = step.groups
        if self.has_started(step) and step.number % self.period == 0 and len(replayed):
            self.outer_step(step)
        total = torch.zeros((), device=incoming.y.device)
        for rows in (incoming, replayed):
            if len(rows):
                logits = step.net(rows.x)
                with torch.no_grad():
                    correction = self.adaptor(logits)
                total = total + step.ce(logits + correction, rows.y)
        return total

    def has_started(self, step: Step) -> bool:
        """Whether the adaptor has started to learn; it never stops again."""
        if self.start == "old-class" and STARTED not in self.tensors:
            counts = pad_classes(step.memory.class_counts, step.n_classes).clone()
            counts[step.incoming.y] = 0
            if bool(counts.any()):
                self.tensors[STARTED] = torch.tensor(True)
        return STARTED in self.tensors

    def outer_step(self, step: Step) -> None:
        """One Adam step on ω; the network and its BatchNorm statistics do not change."""
        fresh = step.fetch(
            draw_distinct(len(step.memory), step.replay_batch, step.randomness.method)
        )
        with frozen_statistics(step.network, "train"), torch.no_grad():
            groups = [(step.network.features(r.x), r.y) for r in (*step.groups, fresh)]
        head, width = step.network.head, step.network.width
        weight, bias = head.weight[:width], head.bias[:width]
        loss = outer_loss(weight, bias, self.adaptor, groups[:2], groups[2], step.lr, head.logits)
        step.update(loss, "adaptor")


def outer_loss(
    weight: Tensor,
    bias: Tensor,
    adaptor: nn.Module,
    inner: Sequence[Labelled],
    outer: Labelled,
    lr: float,
    head: Callable[[Tensor, Tensor, Tensor], Tensor] = F.linear,
) -> Tensor:
    """Loss of a virtually updated head, without correction, as a function of the adaptor.

    Features are constants with respect to ω, so no graph through the extractor is needed.
    """
    weight = weight.detach().requires_grad_()
    bias = bias.detach().requires_grad_()
    inner_loss = torch.zeros((), device=weight.device)
    for features, labels in inner:
        logits = head(features, weight, bias)
        inner_loss = inner_loss + F.cross_entropy(logits + adaptor(logits), labels)
    step_weight, step_bias = torch.autograd.grad(
        inner_loss, (weight, bias), create_graph=True, materialize_grads=True
    )
    features, labels = outer
    logits = head(features, weight - lr * step_weight, bias - lr * step_bias)
    return F.cross_entropy(logits, labels)
