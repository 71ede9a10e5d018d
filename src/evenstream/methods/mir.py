"""MIR: replay the stored samples that the upcoming update would hurt most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from evenstream.bounds import Count
from evenstream.core.criterion import Need
from evenstream.core.edits import WHOLE, by_name
from evenstream.core.memory import X, Y
from evenstream.core.part import TaskData
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.methods.parts.frozen_statistics import frozen_statistics
from evenstream.methods.parts.virtual_step import losses_with, virtual_parameters
from evenstream.policies.retrieval import Retrieval, Uniform, draw_distinct
from evenstream.policies.storing import AtTaskEnd, Reservoir, Storing, reservoir_slots

Mode = Literal["train", "eval"]
TASK = "task"
CANDIDATES_FOR_EACH = 5
"""Candidates per replayed row. With many more, the same few rows are replayed."""


class MaximallyInterfered(Retrieval):
    """The candidates whose loss rises most after a virtual step on the incoming batch."""

    def __init__(self, subsample: int, mode: Mode = "train", earlier_tasks: bool = False) -> None:
        self.subsample, self.mode, self.earlier_tasks = subsample, mode, earlier_tasks

    def pick(self, step: Step, count: int) -> Rows:
        """Draw candidates, score each by CE(θ') - CE(θ), keep the highest, with their views."""
        candidates = self.candidates(step, self.subsample or CANDIDATES_FOR_EACH * count)
        if len(candidates) <= count:
            return candidates
        network, incoming = step.network, step.incoming
        with frozen_statistics(network, self.mode):
            loss = F.cross_entropy(network(incoming.x), incoming.y)
            ahead = virtual_parameters(network, loss, step.lr)
            after = losses_with(network, ahead, candidates.x, candidates.y)
            before = losses_with(network, {}, candidates.x, candidates.y)
        return candidates.take(torch.argsort(after - before, descending=True, stable=True)[:count])

    def candidates(self, step: Step, count: int) -> Rows:
        """A uniform draw from the whole memory, or from samples of earlier tasks."""
        if not self.earlier_tasks or not len(step.memory):
            return Uniform().pick(step, count)
        earlier = (step.memory.field(TASK) < step.remembered[TASK][0]).nonzero().squeeze(1).cpu()
        return step.fetch(earlier[draw_distinct(len(earlier), count, step.randomness.retrieve)])


@register("mir")
@dataclass
class MIR(Replay):
    """Replay the samples that the incoming batch would interfere with most; otherwise like ER."""

    citation = "Aljundi et al., Online Continual Learning with Maximally Interfered Retrieval, 2019"
    cost = "F(b) + G(b) + 2 F(subsample) + F(b+m) + G(b+m)"
    follows = by_name({TASK: WHOLE})
    stored = by_name({TASK: WHOLE})

    subsample: Count = 0
    """Candidates drawn uniformly from memory in each step; all are replayed if they are fewer than
    a replayed batch. 0 means five for each replayed row: 160 with the paper's batches of 32."""
    scoring: Mode = "train"
    """BatchNorm statistics of the virtual step and the scores: the batch's, or the running ones."""
    exclude_current: bool = False
    """Replay only samples of earlier tasks, as in MIR's own code. Needs task boundaries."""
    update_at_task_end: bool = False
    """Fill the memory in a second pass at the end of each task, as the LAS authors' code does.
    Needs task boundaries and the task's data."""

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing, unless an option uses tasks."""
        if self.update_at_task_end:
            return frozenset({"boundaries", "second_pass"})
        return frozenset({"boundaries"} if self.exclude_current else ())

    @property
    def weighs_rows(self) -> bool:
        """A task's data has no weights."""
        return not self.update_at_task_end

    def make_retrieval(self) -> Retrieval:
        """Maximally interfered retrieval."""
        return MaximallyInterfered(self.subsample, self.scoring, self.exclude_current)

    def make_storing(self) -> Storing:
        """Reservoir, at each step or at the end of the task."""
        return AtTaskEnd() if self.update_at_task_end else Reservoir()

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> None:
        """Record the task."""
        self.tensors[TASK] = torch.tensor(learner.task, device=learner.device)

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """Like ER; samples remember their task if retrieval needs it."""
        if self.exclude_current:
            step.remember(task=self.tensors[TASK].expand(len(step.incoming)))
        return super().training_rows(step)

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Offer the whole task to the reservoir, if that was postponed."""
        if not self.update_at_task_end:
            return
        assert data is not None
        memory, task = learner.memory, self.tensors[TASK]
        slots, rows = reservoir_slots(memory, len(data.y), learner.randomness.reservoir)
        stored = {X: data.raw[rows], Y: data.y[rows], TASK: task.expand(len(rows))}
        memory.put(slots.to(memory.device), {k: v.to(memory.device) for k, v in stored.items()})
