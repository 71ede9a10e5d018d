"""A learner's progress: its counters, the current task, and rows that wait for a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from evenstream.core.ids import no_ids
from evenstream.core.labels import Label, label_from_json, label_to_json, plain_counts
from evenstream.core.stateful import WithoutClasses
from evenstream.entries import whole_number


@dataclass(frozen=True, eq=False)
class Waiting:
    """A batch that waits for a step."""

    rows: Tensor
    labels: list[Label]
    weights: Tensor | None = None
    """The weight of each row; None if all are equal."""
    ids: Tensor | None = None
    """Digests of the ids of rows; None if they have none."""

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: list[int]) -> Waiting:
        """Some of the rows."""
        labels = [self.labels[row] for row in rows]
        others = (None if each is None else each[rows] for each in (self.weights, self.ids))
        return Waiting(self.rows[rows], labels, *others)


def joined(batches: list[Waiting]) -> Waiting:
    """One batch of all waiting rows."""
    weights = None
    if any(batch.weights is not None for batch in batches):
        ones = [torch.ones(len(b)) if b.weights is None else b.weights for b in batches]
        weights = torch.cat(ones)
    labels = [label for batch in batches for label in batch.labels]
    ids = None
    if any(batch.ids is not None for batch in batches):
        ids = torch.cat([no_ids(len(b)) if b.ids is None else b.ids for b in batches])
    return Waiting(torch.cat([batch.rows for batch in batches]), labels, weights, ids)


@dataclass
class Progress(WithoutClasses):
    """Counters and announcements; every field is saved, and restored if a step is rejected."""

    step: int = 0
    """Steps made so far."""
    task: int = -1
    """Index of the current task; -1 before the first `start_task`."""
    in_task: bool = False
    task_counts: dict[Label, int] | None = None
    """How often each label will occur in the task, if that was announced."""
    pending: list[Waiting] = field(default_factory=list)
    """Batches collected for the next step; replaced, never modified in place."""
    edits: int = 0
    """Corrections made so far (`relabel`, `forget`, `rename`, `merge`, `remove_class`)."""

    def mark(self) -> dict[str, Any]:
        """The current values."""
        return dict(vars(self))

    def restore(self, mark: dict[str, Any]) -> None:
        """Restore the values."""
        vars(self).update(mark)

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Any]:
        """Plain values, and the waiting rows in one tensor."""
        counts, waiting = self.task_counts, None
        if self.pending:
            batch = joined(self.pending)
            waiting = {"x": batch.rows, "labels": [label_to_json(v) for v in batch.labels]}
            if batch.weights is not None:
                waiting["weights"] = batch.weights
            if batch.ids is not None:
                waiting["ids"] = batch.ids
        written = counts and [[label_to_json(label), n] for label, n in counts.items()]
        found = {**vars(self), "task_counts": written, "pending": waiting}
        if not self.edits:  # as in all saves before corrections existed
            del found["edits"]
        return found

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.step, self.task = whole_number(state, "step"), whole_number(state, "task", -1)
        self.edits = whole_number({"edits": 0, **state}, "edits")
        self.in_task, counts, waiting = (state[k] for k in ("in_task", "task_counts", "pending"))
        if not isinstance(self.in_task, bool):
            raise TypeError(f"in_task is {self.in_task!r}")
        self.task_counts, self.pending = None, []
        if counts is not None:
            self.task_counts = plain_counts({label_from_json(label): n for label, n in counts})
        if waiting is not None:
            labels = [label_from_json(v) for v in waiting["labels"]]
            self.pending = [
                Waiting(waiting["x"], labels, waiting.get("weights"), waiting.get("ids"))
            ]
