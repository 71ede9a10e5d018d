"""BiC: train with distillation, then two numbers correct the newest task's logits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.bounds import Count, Factor, Share
from evenstream.core.edits import WHOLE, PerClass, by_name
from evenstream.core.memory import X, Y
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.errors import LearningWarning
from evenstream.methods.base import register
from evenstream.methods.parts.distillation import Temperature, distillation
from evenstream.methods.parts.taskwise import ROWS, TaskwiseMethod, pooled, refill
from evenstream.policies.retrieval import draw_distinct
from evenstream.policies.rules import InferenceRule
from evenstream.policies.rules.bias_correction import BiasCorrected, corrected

LambdaMode = Literal["classes", "mammoth", "sairin"]
TASK, WEIGHTS, TAUGHT, HELD_OUT, FROM_MEMORY = "task", "weights", "taught", "new_", "old_"


@register("bic")
@dataclass
class BiC(TaskwiseMethod):
    """Cross-entropy and distillation; held-out rows fit the bias correction.

    From the second task on, a tenth of the memory and as many rows of the task are held out. The
    memory keeps the same number of rows of each task.
    """

    citation = "Wu et al., Large Scale Incremental Learning, 2019"
    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher, m = M/steps"

    follows = by_name({**TaskwiseMethod.follows, WEIGHTS: WHOLE, TAUGHT: PerClass(1)})
    stored = by_name({TASK: WHOLE})

    temperature: Temperature = 2.0
    """Temperature of the distillation."""
    lambda_mode: LambdaMode = "classes"
    """Weights (1-λ) and λ of cross-entropy and distillation: λ is the share of classes not in the
    task (the article), or 1/(task + 1) with the square of the temperature (Mammoth); sairin weights
    distillation by that square alone (another public code)."""
    held_out: Share = 0.1
    """Share of the memory to hold out; 0 fits the correction on the memory instead."""
    bias_lr: Factor = 0.001
    """Learning rate of the bias correction's Adam."""
    bias_epochs: Count = 50
    """Passes over the held-out rows; 0 means no correction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._warned = False

    def make_rule(self) -> InferenceRule:
        """Bias correction."""
        return BiasCorrected(self.bias_lr, self.bias_epochs)

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> Sequence[int] | None:
        """Set the weights of the two losses, keep the teacher's correction, hold rows out."""
        super().on_task_start(learner, data)
        assert data is not None
        seen = len(learner.labels)
        old = seen - len(torch.unique(data.y))
        weights = loss_weights(self.lambda_mode, old, seen, learner.task)
        self.tensors[WEIGHTS] = torch.tensor(weights, dtype=torch.float64)
        self.tensors.pop(TAUGHT, None)
        rule = learner.rule
        if isinstance(rule, BiasCorrected) and rule.correction is not None:
            self.tensors[TAUGHT] = rule.correction
        return self.hold_out(learner, data)

    def why_not_edit(self) -> str | None:
        """Reject the edit while rows are held out, since they would have to follow."""
        if HELD_OUT + X not in self.tensors:
            return None
        return f"{self.name} holds rows out during a task; wait for the end of the task"

    def hold_out(self, learner: LearnerState, data: TaskData) -> list[int]:
        """Remove rows from the memory, and choose as many rows of the task."""
        memory, own = learner.memory, learner.randomness.method
        count = min(round(self.held_out * len(memory)), len(data.y) - 1)
        if len(memory) and not count and isinstance(learner.rule, BiasCorrected):
            self._warn_that_nothing_is_held_out(len(memory), len(data.y))
        order = torch.randperm(len(memory), generator=own).to(memory.device)
        kept, held = memory.rows(order[count:]), memory.rows(order[:count])
        memory.clear()
        memory.put(torch.arange(len(order) - count, device=memory.device), kept)
        self.tensors.update({FROM_MEMORY + name: values for name, values in held.items()})
        positions = draw_distinct(len(data.y), count, own)
        self.tensors[HELD_OUT + X] = data.raw[positions]
        self.tensors[HELD_OUT + Y] = data.y[positions]
        self.tensors[ROWS] = torch.tensor(len(data.y) - count)
        return positions.tolist()

    def _warn_that_nothing_is_held_out(self, stored: int, rows: int) -> None:
        """Without rows to fit on, the rule uses the memory, where less of the bias shows."""
        if self._warned or not self.held_out:
            return
        self._warned = True
        warnings.warn(
            f"{self.name} fits its bias correction on rows that it was trained on: with {stored} "
            f"rows in memory and {rows} in the task, held_out={self.held_out:g} holds none out; "
            "use a larger memory or a larger held_out",
            LearningWarning,
            stacklevel=2,
        )

    def loss(self, step: Step) -> Tensor:
        """(1-λ)·CE + λ·KD on the old columns, with the teacher's logits bias-corrected."""
        x, y = step.joint()
        logits = step.net(x)
        loss = step.ce(logits, y)
        if self.old_network is None:
            return loss
        taught = corrected(self.old_network.outputs(x)[1], self.tensors.get(TAUGHT))
        scaled = self.lambda_mode != "classes"
        kept = distillation(logits, taught, self.temperature, scaled=scaled)
        new_weight, old_weight = map(float, self.tensors[WEIGHTS])
        return new_weight * loss + old_weight * kept

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Fit the bias correction, then refill the memory."""
        assert data is not None
        memory = learner.memory
        raw, y = (self.tensors.pop(HELD_OUT + name) for name in (X, Y))
        if len(y):
            from_memory = {name: self.tensors.pop(FROM_MEMORY + name) for name in (X, Y, TASK)}
            if isinstance(learner.rule, BiasCorrected):
                raw = torch.cat([from_memory[X], raw])
                learner.rule.fit(learner, raw, torch.cat([from_memory[Y], y]))
            slots = torch.arange(len(memory), len(memory) + len(y), device=memory.device)
            memory.put(slots, from_memory)
        rows = pooled(memory, data, task=torch.full_like(data.y, learner.task))
        refill(learner, rows, rows[TASK])


def loss_weights(mode: LambdaMode, old: int, seen: int, task: int) -> tuple[float, float]:
    """Weights of cross-entropy and distillation in a task, counted from 0."""
    if mode == "sairin":
        return 1 - old / seen, 1.0
    weight = old / seen if mode == "classes" else 1 / (task + 1)
    return 1 - weight, weight
