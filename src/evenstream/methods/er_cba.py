"""ER-CBA: a small network corrects the logits during training, learnt so that the head needs none.

The continual bias adaptor g_ω maps class probabilities to a correction of the logits. Bilevel: ω
is chosen so that a head that was updated *through* the correction does well *without* it on memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.learner.step import Step
from evenstream.methods.base import Method, register
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.slots.retrieval import draw_distinct

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner

Labelled = tuple[Tensor, Tensor]


class Adaptor(nn.Module):
    """g_ω: probabilities -> hidden -> correction; room for `width` classes, zeros where unseen."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        for layer in (self.inner, self.outer):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, logits: Tensor) -> Tensor:
        """The correction; its input is a constant."""
        n_classes = logits.shape[1]
        probabilities = F.softmax(logits.detach(), 1)
        padded = F.pad(probabilities, (0, self.inner.in_features - n_classes))
        corrected: Tensor = self.outer(F.relu(self.inner(padded)))[:, :n_classes]
        return corrected


@register("er-cba")
@dataclass
class ERCBA(Method):
    """ER through a learnt correction of the logits that is dropped at test time."""

    citation = (
        "Wang et al., CBA: Improving Online Continual Learning via Continual Bias Adaptor, 2023"
    )
    cost = "F(b) + F(m) + G(b+m), every `period` steps F(b+2m) more"

    adaptor_lr: float = 0.001
    """Learning rate of the adaptor's Adam (0.001 on C-CIFAR10, 0.01 on C-CIFAR100)."""
    period: int = 5
    """Steps between two updates of the adaptor."""
    hidden: int = 256
    """Hidden units of the adaptor."""

    def on_setup(self, learner: Learner) -> None:
        """Make the adaptor."""
        self._resize(learner, len(learner.labels))

    def on_new_classes(self, learner: Learner, first: int) -> None:
        """Make room for more classes; what was learnt stays."""
        if len(learner.labels) > self.adaptor.inner.in_features:
            self._resize(learner, len(learner.labels))

    @property
    def adaptor(self) -> Adaptor:
        """g_ω."""
        module = self.modules["adaptor"]
        assert isinstance(module, Adaptor)
        return module

    def _resize(self, learner: Learner, n_classes: int) -> None:
        """An adaptor for the next power of two of classes, with the old weights in its corner."""
        wide = Adaptor(1 << max(4, (n_classes - 1).bit_length()), self.hidden).to(learner.device)
        if "adaptor" in self.modules:
            old, width = self.adaptor, self.adaptor.inner.in_features
            with torch.no_grad():
                wide.inner.weight[:, :width] = old.inner.weight
                wide.inner.bias.copy_(old.inner.bias)
                wide.outer.weight[:width] = old.outer.weight
                wide.outer.bias[:width] = old.outer.bias
        self.modules["adaptor"] = wide
        self.optimizers["adaptor"] = torch.optim.Adam(wide.parameters(), self.adaptor_lr)

    def loss(self, step: Step) -> Tensor:
        """Now and then the outer step on ω; always the inner loss with the correction constant."""
        incoming, replayed = step.groups
        old = set(replayed.y.tolist()) - set(incoming.y.tolist())
        if step.number % self.period == 0 and old:
            self.outer_step(step)
        total = torch.zeros((), device=incoming.y.device)
        for rows in (incoming, replayed):
            if len(rows):
                logits = step.net(rows.x)
                with torch.no_grad():
                    correction = self.adaptor(logits)
                total = total + step.ce(logits + correction, rows.y)
        return total

    def outer_step(self, step: Step) -> None:
        """One Adam step on ω; the network and its BatchNorm statistics stay as they are."""
        fresh = step.fetch(
            draw_distinct(len(step.memory), step.replay_batch, step.randomness.method)
        )
        with frozen_statistics(step.network), torch.no_grad():
            groups = [(step.network.features(r.x), r.y) for r in (*step.groups, fresh)]
        head, width = step.network.head, step.network.width
        loss = outer_loss(
            head.weight[:width], head.bias[:width], self.adaptor, groups[:2], groups[2], step.lr
        )
        step.optimise(loss, "adaptor")


def outer_loss(
    weight: Tensor,
    bias: Tensor,
    adaptor: nn.Module,
    inner: Sequence[Labelled],
    outer: Labelled,
    lr: float,
) -> Tensor:
    """Loss of a virtually updated head, without correction, as a function of the adaptor.

    Features are constants with respect to ω, so no graph through the extractor is needed.
    """
    weight = weight.detach().requires_grad_()
    bias = bias.detach().requires_grad_()
    inner_loss = torch.zeros((), device=weight.device)
    for features, labels in inner:
        logits = F.linear(features, weight, bias)
        inner_loss = inner_loss + F.cross_entropy(logits + adaptor(logits), labels)
    step_weight, step_bias = torch.autograd.grad(inner_loss, (weight, bias), create_graph=True)
    features, labels = outer
    logits = F.linear(features, weight - lr * step_weight, bias - lr * step_bias)
    return F.cross_entropy(logits, labels)
