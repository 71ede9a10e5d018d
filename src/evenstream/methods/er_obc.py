"""ER-OBC: after each ER step, correct the output layer alone on a fresh draw from memory."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Count, Factor
from evenstream.core.heads import GrowingHead
from evenstream.core.memory import Y
from evenstream.core.optimizers import replace_parameter
from evenstream.core.randomness import derive_seed
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.methods.parts.balanced import balanced_slots
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.policies.retrieval import draw_distinct

SURROGATE = "surrogate"


@register("er-obc")
@dataclass
class EROBC(Replay):
    """ER, then a second step for head weight and bias only; the extractor does not change.

    The correction always uses plain cross-entropy, because it already counters the same bias by
    training on rows from the memory, which is roughly balanced. `er-obc-las` adjusts the first
    step.
    """

    citation = "Chrysakis and Moens, Online Bias Correction for Task-Free Continual Learning, 2023"
    cost = "F(b+m) + G(b+m) + F(m) + head only G(m)"
    logits_follow_criterion = False
    weighs_rows = False  # the second step would ignore them

    correction_batch: Count = 0
    """Rows of the second draw; 0 means as many as are replayed."""
    correction_weight: Factor = 1.0
    """Factor on the second step's loss; 0 is ER."""
    correction_draw: Literal["uniform", "balanced"] = "uniform"
    """Whether the second draw is uniform or has the same number of rows from each class."""
    correction_mode: Literal["train", "eval"] = "train"
    """BatchNorm statistics of the second draw: its own, or the running ones."""
    surrogate_head: bool = False
    """Train the extractor through a separate head, so that the predicting head learns only from the
    second draw."""

    @property
    def why_not_exits(self) -> str | None:
        """The surrogate replaces a single head."""
        return "it has one surrogate head" if self.surrogate_head else None

    @property
    def trained_groups(self) -> tuple[str, ...]:
        """The network, and the surrogate head if there is one."""
        return ("network", SURROGATE) if self.surrogate_head else ("network",)

    def on_setup(self, learner: LearnerState) -> None:
        """Create the surrogate head."""
        if not self.surrogate_head:
            return
        real, options = learner.network.head, learner.options
        rows = max(real.out_features, len(learner.labels))
        head = learner.head.build(real.in_features, derive_seed(options.seed, SURROGATE), rows)
        self.modules[SURROGATE] = head.to(learner.device)
        self.optimizers[SURROGATE] = learner.make_optimizer(head.parameters())

    def on_new_classes(self, learner: LearnerState, first: int) -> None:
        """Grow a copy of the surrogate head, so that a rejected step still has the old one."""
        if not self.surrogate_head:
            return
        old = self.modules[SURROGATE], self.optimizers[SURROGATE]
        head, optimizer = copy.deepcopy(old)
        assert isinstance(head, GrowingHead)
        before = head.weight, head.bias
        head.grow(len(learner.labels))
        for parameter, grown in zip(before, (head.weight, head.bias), strict=True):
            replace_parameter(optimizer, parameter, grown)
        self.modules[SURROGATE], self.optimizers[SURROGATE] = head, optimizer

    def loss(self, step: Step) -> Tensor:
        """Step A: ER's loss, through the surrogate head if there is one."""
        x, y = step.joint()
        features, logits = step.forward(x)
        if self.surrogate_head:
            logits = self.modules[SURROGATE](features, step.network.width)
        return step.ce(logits, y)

    def after_step(self, step: Step) -> None:
        """Step B: features without gradient, one step on the head."""
        count, own = self.correction_batch or step.replay_batch, step.randomness.method
        if not len(step.memory) or not count or not self.correction_weight:
            return
        if self.correction_draw == "uniform":
            slots = draw_distinct(len(step.memory), count, own)
        else:
            slots = balanced_slots(step.memory.field(Y), count, own)
        rows = replace(step.fetch(slots), generator=own)
        with frozen_statistics(step.network, self.correction_mode), torch.no_grad():
            features = step.network.features(rows.x)
        loss = F.cross_entropy(step.network.logits(features), rows.y)
        step.update(self.correction_weight * loss, "head")
