"""Rescaling (IL2M): give old classes back the confidence they had when they were new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.core.criterion import Need
from evenstream.core.edits import WHOLE, ClassCount, PerClass, by_name
from evenstream.core.memory import X, Y
from evenstream.core.outputs import InferenceContext, Outputs, plain_outputs
from evenstream.core.part import TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.policies.rules.rule import InferenceRule, register_rule

OLD, FIRST, OWN, TOP = "old", "first", "own", "top"
LEAST = 1e-6
Measured = Literal["in-training", "afterwards"]


@register_rule("rescaled")
@dataclass
class Rescaled(InferenceRule):
    """If a new class is on top, multiply the probability of each old class by its own factor.

    The factor is μ_first/μ_now · κ_now/κ_first, where μ is the mean probability of the class on its
    own training rows and κ the mean top probability on rows of new classes; "first" is the task
    that introduced the class, "now" the current one. A class without rows in memory keeps its
    probability.
    """

    follows = by_name(
        {OLD: ClassCount(), FIRST: PerClass(1), OWN: PerClass(1, added=True), TOP: WHOLE}
    )
    reads_memory = False

    measured: Measured = "in-training"
    """When both are measured: during training, over the task's last epoch, without extra forward
    passes; or afterwards, with the trained network in eval mode on un-augmented rows: the task's
    own, which are needed again, and stored rows of other classes."""

    @property
    def needs(self) -> frozenset[Need]:
        """The task's data as well, if it is measured afterwards."""
        needs: frozenset[Need] = frozenset({"boundaries", "memory"})
        return needs | {"second_pass"} if self.measured == "afterwards" else needs

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> None:
        """From now on, classes whose first task is over are old."""
        old = self.tensors[FIRST].shape[1] if FIRST in self.tensors else 0
        self.tensors[OLD] = torch.tensor(old)

    def on_epoch_start(self, learner: LearnerState) -> None:
        """Restart the sums."""
        for name in (OWN, TOP):
            self.tensors.pop(name, None)

    def after_step(self, step: Step) -> None:
        """Add the probabilities of the step's rows before the update."""
        if self.measured == "afterwards":
            return
        for rows in step.groups:
            logits = step.logits_of(rows)
            if logits is not None:
                self._sum_up(logits[:, : step.n_classes], rows.y)

    def _sum_up(self, logits: Tensor, y: Tensor) -> None:
        """Add the probabilities of rows, given their logits of the seen classes."""
        p = logits.softmax(1).double()
        self._add(OWN, p.gather(1, y.unsqueeze(1)).squeeze(1), y, p.shape[1])
        new = y >= self.tensors[OLD]
        self._add(TOP, p[new].amax(1), torch.zeros_like(y[new]), 1)

    def _add(self, name: str, values: Tensor, columns: Tensor, width: int) -> None:
        """Add values and their number to the columns of a table of sums."""
        sums = self.tensors.get(name, values.new_zeros(2, 0))
        added = torch.stack([values, torch.ones_like(values)])
        sums = F.pad(sums, (0, width - sums.shape[1]))
        self.tensors[name] = sums.index_add(1, columns, added)

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Keep the two means of each new class."""
        if self.measured == "afterwards":
            self._measure(learner, data)
        if OWN not in self.tensors:
            return
        own, top = self._mean(OWN), self._mean(TOP)
        first = self.tensors.get(FIRST, own.new_zeros(2, 0))
        new = own[first.shape[1] :]
        self.tensors[FIRST] = torch.cat([first, torch.stack([new, top.expand(len(new))])], 1)

    def _measure(self, learner: LearnerState, data: TaskData | None) -> None:
        """Sum over the task's rows and stored rows of other classes, as they are now."""
        assert data is not None
        memory, groups = learner.memory, [(data.raw, data.y)]
        if len(memory):
            others = ~torch.isin(memory.field(Y), data.y)
            groups.append((memory.field(X)[others], memory.field(Y)[others]))
        for raw, y in groups:
            if len(y):
                self._sum_up(plain_outputs(learner, raw)[1], y)

    def _mean(self, name: str) -> Tensor:
        """Means of a table; NaN where nothing was added."""
        sums = self.tensors[name]
        return sums[0] / sums[1]

    def prepare(self, context: InferenceContext) -> Any:
        """Logarithms of the old classes' factors; added to logits, they multiply probabilities."""
        old = int(self.tensors.get(OLD, 0))
        if not old or OWN not in self.tensors:
            return torch.zeros(0)
        first, confidence = self.tensors[FIRST][:, :old]
        factors = rescaling(first, self._mean(OWN)[:old], self._mean(TOP), confidence)
        return factors.log().float()

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """Logits, rescaled in the rows with a new class on top."""
        logits, log_factors = outputs.logits, prepared.to(outputs.logits.device)
        old = len(log_factors)
        new_on_top = logits.argmax(1, keepdim=True) >= old
        return torch.cat([logits[:, :old] + new_on_top * log_factors, logits[:, old:]], 1)


def rescaling(first: Tensor, now: Tensor, confidence: Tensor, first_confidence: Tensor) -> Tensor:
    """μ_first/μ_now · κ_now/κ_first; 1 where one of them is not known (NaN)."""
    factors = first.clamp_min(LEAST) / now.clamp_min(LEAST) * confidence / first_confidence
    return factors.nan_to_num(1.0)
