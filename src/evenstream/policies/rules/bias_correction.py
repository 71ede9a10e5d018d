"""Bias correction: two numbers undo the advantage of the newest task's classes (BiC's stage 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from evenstream.bounds import Count, Factor
from evenstream.core.edits import ClassIndices, PerClass, by_name
from evenstream.core.memory import X, Y
from evenstream.core.optimizers import Adam
from evenstream.core.outputs import InferenceContext, Outputs, plain_outputs
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.errors import NonFiniteLoss
from evenstream.policies.rules.rule import InferenceRule, register_rule

CURRENT, CORRECTION = "current", "correction"


@register_rule("bias-corrected")
@dataclass
class BiasCorrected(InferenceRule):
    """Logits of the last task's classes become α·z + β, with α and β fitted when the task is over.

    BiC fits them on held-out rows. With any other method they are fitted on the memory, with all
    classes weighted equally; since it was trained on, less of the bias shows there.
    """

    needs = frozenset({"boundaries", "memory"})
    follows = by_name({CURRENT: ClassIndices(), CORRECTION: PerClass(1)})
    reads_memory = False

    lr: Factor = 0.001
    """Learning rate of Adam for fitting α and β."""
    epochs: Count = 50
    """Passes over the rows used for fitting; 0 is argmax."""

    @property
    def correction(self) -> Tensor | None:
        """The factor and summand for each class's logits, while there is a correction."""
        return self.tensors.get(CORRECTION)

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> None:
        """Drop the correction: only the newest is active, and the new task has none yet."""
        for name in (CURRENT, CORRECTION):
            self.tensors.pop(name, None)

    def after_step(self, step: Step) -> None:
        """Record the task's classes."""
        before = self.tensors.get(CURRENT, step.incoming.y[:0])
        self.tensors[CURRENT] = torch.unique(torch.cat([before, step.incoming.y]))

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Fit on the memory, unless the method has fitted on held-out rows."""
        if self.correction is None and len(learner.memory):
            labels = learner.memory.field(Y)
            counts = torch.bincount(labels, minlength=len(learner.labels))
            self.fit(learner, learner.memory.field(X), labels, 1 / counts.clamp_min(1))

    def fit(
        self, learner: LearnerState, raw: Tensor, y: Tensor, class_weights: Tensor | None = None
    ) -> None:
        """Fit α and β on these rows, un-augmented; the network does not change.

        In the first task there are no other classes to outweigh.
        """
        classes = self.tensors.get(CURRENT, y[:0])
        if len(classes) in (0, len(learner.labels)):
            return
        _, logits = plain_outputs(learner, raw)
        current = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
        current[classes] = True
        bias = fit_bias(
            logits,
            y,
            current,
            lr=self.lr,
            epochs=self.epochs,
            batch=learner.options.batch,
            generator=learner.randomness.method,
            class_weights=class_weights,
        )
        unchanged = bias.new_tensor([1.0, 0.0])
        self.tensors[CORRECTION] = torch.where(current, bias.unsqueeze(1), unchanged.unsqueeze(1))

    def prepare(self, context: InferenceContext) -> Any:
        """Factors and summands."""
        return self.correction

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The corrected logits; classes added after the fit keep theirs."""
        return corrected(outputs.logits, prepared)


def corrected(logits: Tensor, correction: Tensor | None) -> Tensor:
    """Logits times factors plus summands, for as many classes as the correction has."""
    if correction is None:
        return logits
    factor, summand = correction
    n = len(factor)
    return torch.cat([logits[:, :n] * factor + summand, logits[:, n:]], 1)


def fit_bias(
    logits: Tensor,
    y: Tensor,
    current: Tensor,
    *,
    lr: float,
    epochs: int,
    batch: int,
    generator: Generator,
    class_weights: Tensor | None = None,
) -> Tensor:
    """(α, β) with the least cross-entropy of logits whose current columns are α·z + β.

    Starts at (1, 0). With BiC's defaults and few rows it stays near there: a step of Adam moves
    either number by `lr` at most, and there is about one step per epoch.
    """
    bias = torch.tensor([1.0, 0.0], device=logits.device, requires_grad=True)
    optimizer = Adam([bias], lr)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(y), generator=generator), batch):
            z = logits[rows]
            z = torch.where(current, bias[0] * z + bias[1], z)
            loss = F.cross_entropy(z, y[rows], class_weights)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    if not bool(torch.isfinite(bias).all()):
        raise NonFiniteLoss("the bias correction is not finite; lower its lr (bias-corrected:lr=)")
    return bias.detach()
