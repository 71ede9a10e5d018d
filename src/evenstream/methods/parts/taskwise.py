"""Base of methods that train in epochs on task and memory, and fill the memory at task ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.core.edits import WHOLE, PerSlot, by_name
from evenstream.core.memory import Memory, X, Y
from evenstream.core.outputs import plain_outputs
from evenstream.core.part import TaskData
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.methods.base import Method
from evenstream.methods.parts.balanced import slots_per_class
from evenstream.methods.parts.exemplars import choose_exemplars, herding_order
from evenstream.options import StepRows
from evenstream.policies.retrieval import OncePerEpoch, Retrieval, Uniform
from evenstream.policies.storing import AtTaskEnd, Storing
from evenstream.policies.teachers import TaskEndTeacher, Teacher

Exemplars = Literal["random", "herding"]
ROWS = "rows"


@dataclass
class TaskwiseMethod(Method):
    """Base of methods for known tasks: a teacher from each, and a memory fixed within them."""

    needs = frozenset({"boundaries", "second_pass", "memory"})
    logits_follow_criterion = False
    follows = by_name({ROWS: WHOLE, OncePerEpoch.DUE: PerSlot(), OncePerEpoch.PASSED: WHOLE})

    mix: Literal["joint", "replay"] = "joint"
    """How stored rows come back: joint shuffles them among the task's rows, once per epoch; replay
    draws a batch of them at every step, as ER does."""

    def make_retrieval(self) -> Retrieval:
        """As set by `mix`."""
        return OncePerEpoch(self) if self.mix == "joint" else Uniform()

    def why_not_steps(self, rows: StepRows) -> str | None:
        """Rows that come back once per epoch cannot come back at every repeated step."""
        if rows == "repeat" and self.mix == "joint":
            return (
                "with mix=joint each stored row comes back once per epoch; use mix=replay, or "
                "step_rows=micro"
            )
        return None

    def make_storing(self) -> Storing:
        """None within a task."""
        return AtTaskEnd()

    def make_teacher(self) -> Teacher:
        """The network at the end of the last task."""
        return TaskEndTeacher()

    @property
    def old_network(self) -> Teacher | None:
        """The teacher; there is none in the first task."""
        return self.teacher if self.teacher and self.teacher.known else None

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> Sequence[int] | None:
        """Record the number of rows per epoch."""
        assert data is not None
        self.tensors[ROWS] = torch.tensor(len(data.y))
        return None

    def on_epoch_start(self, learner: LearnerState) -> None:
        """Shuffle the memory into the epoch."""
        if isinstance(learner.retrieval, OncePerEpoch):
            rows = int(self.tensors[ROWS])
            learner.retrieval.shuffle(len(learner.memory), rows, learner.randomness.retrieve)


def balanced_batches(learner: LearnerState, data: TaskData, epochs: int) -> Iterator[Rows]:
    """Batches with equally many rows of each class, for fine-tuning at the end of a task.

    They contain the whole memory, and as many rows of each class that it lacks, redrawn for every
    epoch. The last batch may be small, so even a tiny set gives a step.
    """
    memory, own, size = learner.memory, learner.randomness.method, learner.options.batch
    stored, quota = memory.rows(torch.arange(len(memory))), int(memory.class_counts.max())
    missing = (~torch.isin(data.y, stored[Y])).nonzero().squeeze(1).cpu()
    for _ in range(epochs):
        fresh = missing[slots_per_class(data.y[missing], quota, own, replacement=False)]
        raw, y = (
            torch.cat([stored[name], values[fresh]])
            for name, values in ((X, data.raw), (Y, data.y))
        )
        for rows in torch.split(torch.randperm(len(y), generator=own), size):
            yield Rows(raw[rows], y[rows], learner.preprocess, learner.randomness.augment)


def refill_by_class(learner: LearnerState, data: TaskData, exemplars: Exemplars) -> None:
    """Keep the same number of rows of each class, old and new, in the memory."""
    rows = pooled(learner.memory, data)
    order = _herded(learner, rows, data.y) if exemplars == "herding" else None
    refill(learner, rows, rows[Y], order)


def pooled(memory: Memory, data: TaskData, **fields: Tensor) -> dict[str, Tensor]:
    """All stored rows, then the task's, which get the given fields besides inputs and labels."""
    stored = memory.rows(torch.arange(len(memory)))
    fresh = {X: data.raw, Y: data.y, **fields}
    return {name: torch.cat([stored.get(name, new[:0]), new]) for name, new in fresh.items()}


def refill(
    learner: LearnerState, rows: dict[str, Tensor], groups: Tensor, order: Tensor | None = None
) -> None:
    """Fill the memory with equally many of these rows per group, and nothing else."""
    memory, own = learner.memory, learner.randomness.method
    chosen = choose_exemplars(groups, memory.capacity, own, order).to(memory.device)
    memory.clear()
    slots = torch.arange(len(chosen), device=memory.device)
    memory.put(slots, {name: values[chosen] for name, values in rows.items()})


def _herded(learner: LearnerState, rows: dict[str, Tensor], fresh: Tensor) -> Tensor:
    """Positions by priority: classes with new rows herded, others as they were."""
    is_fresh = torch.isin(rows[Y], fresh)
    positions = is_fresh.nonzero().squeeze(1)
    features, _ = plain_outputs(learner, rows[X][positions])
    most = max(1, learner.memory.capacity // len(torch.unique(rows[Y])))
    herded = positions.cpu()[herding_order(features, rows[Y][positions], most)]
    return torch.cat([(~is_fresh).nonzero().squeeze(1).cpu(), herded])
