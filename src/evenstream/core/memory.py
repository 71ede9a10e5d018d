"""The replay memory: a preallocated struct of arrays, one array for each field of a sample."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.core.classes import pad_classes
from evenstream.core.edits import WHOLE, Compaction, Follows, Regrouping
from evenstream.core.room import check_room
from evenstream.entries import whole_number
from evenstream.errors import InputError

X, Y, WEIGHT, ID = "x", "y", "row_weight", "row_id"
RECENT = 64
"""Number of writes that a copy may lag behind before it is rebuilt."""
ABSENT = {WEIGHT: 1.0}
"""The value of a field for rows stored without one; 0 unless listed here."""


@dataclass(frozen=True)
class Placement:
    """Row `rows[i]` of those offered goes to slot `slots[i]`; slots are distinct."""

    slots: Tensor
    rows: Tensor
    fields: dict[str, Tensor] = field(default_factory=dict)
    """Values that the policy itself keeps with each placed row (scores, importance, ...)."""


class Memory:
    """Up to `capacity` raw samples (images stay uint8) with labels and a method's extra fields.

    Fields are fully allocated when first written; a write costs O(rows written). The storing policy
    decides which rows go where, the retrieval policy which come back.

    Args:
        capacity: maximum number of samples.
        device: where they are stored.
        follows: declarations of a method's fields and a storing policy's counters, by name.
    """

    def __init__(
        self,
        capacity: int,
        device: torch.device | str = "cpu",
        follows: Mapping[str, Follows] | None = None,
    ) -> None:
        self.capacity = capacity
        self._follows = {X: WHOLE, Y: WHOLE, WEIGHT: WHOLE, ID: WHOLE, **(follows or {})}
        self.device = torch.device(device)
        self.seen = 0
        """Samples offered so far (the reservoir's n)."""
        self.size = 0
        """Slots filled so far; always the first ones."""
        self.class_counts = torch.zeros(0, dtype=torch.int64, device=self.device)
        """Number of stored samples per class."""
        self.counters: dict[str, Tensor] = {}
        """A storing policy's counters; saved with the memory. Replaced, never modified in place."""
        self._fields: dict[str, Tensor] = {}
        self._journal: list[Callable[[], None]] | None = None
        self.dropped = 0
        """Number of times samples were deleted on request."""
        self._writes = 0
        self._recent: deque[Tensor | None] = deque(maxlen=RECENT)
        """The slots of the last writes; None if all may have changed."""

    def __len__(self) -> int:
        return self.size

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the stored fields."""
        return tuple(self._fields)

    def rows(self, slots: Tensor) -> dict[str, Tensor]:
        """Copies of the given slots, all fields."""
        return {name: values[slots] for name, values in self._fields.items()}

    def field(self, name: str) -> Tensor:
        """The filled part of one field (a view: read only)."""
        return self._fields[name][: self.size]

    def put(self, slots: Tensor, values: dict[str, Tensor]) -> None:
        """Write rows into distinct slots; slots beyond `size` must continue it without a gap.

        A field without a value for these rows is zero there (`ABSENT` has the exceptions).
        """
        if not len(slots):
            return
        self._remember(slots, self.fields)
        for name, rows in values.items():
            self._fit_field(name, rows)
        labels = values[Y]
        counts = pad_classes(self.class_counts, int(labels.max()) + 1)
        replaced = self._fields[Y][slots[slots < self.size]]
        counts = counts - torch.bincount(replaced, minlength=len(counts))
        self.class_counts = counts + torch.bincount(labels, minlength=len(counts))
        for name in self._fields:
            if name in values:
                self._write(name, slots, values[name])
            else:
                self._fields[name][slots] = ABSENT.get(name, 0)
        self.size = max(self.size, int(slots.max()) + 1)

    def set_field(self, name: str, slots: Tensor, values: Tensor) -> None:
        """Overwrite one field of stored samples, such as scores that a method refreshes."""
        self._remember(slots, (name,))
        self._fit_field(name, values)
        self._write(name, slots, values)

    def _write(self, name: str, slots: Tensor, rows: Tensor) -> None:
        stored = self._fields[name]
        if rows.shape[1:] != stored.shape[1:]:  # logits from before the head grew
            rows = F.pad(rows, (0, stored.shape[1] - rows.shape[1]))
        stored[slots] = rows.to(stored.dtype)

    def relabel(self, slots: Tensor, labels: Tensor) -> None:
        """Change the labels of stored samples."""
        self._remember(slots, (Y,))
        self._fields[Y][slots] = labels
        self._count()

    def regroup(self, classes: Regrouping) -> None:
        """Follow a merge or removal; a removed class must have no stored samples left."""
        self.check_follows()
        self._remember(torch.arange(self.size, device=self.device), (Y,))
        self._fields = {
            name: self._follows[name].regrouped(values, classes)
            for name, values in self._fields.items()
        }
        if self.size:
            self._fields[Y][: self.size] = classes.indices(self.field(Y))
        self.counters = {
            n: self._follows[n].regrouped(t, classes) for n, t in self.counters.items()
        }
        self.class_counts = classes.entries(self.class_counts)
        self._count()

    def compact(self, slots: Compaction) -> None:
        """Delete samples; nothing is left of them in any field."""
        self.check_follows()
        moved = torch.arange(self.size, device=self.device)
        first = int((slots.kept == moved[: len(slots.kept)]).sum())
        self._remember(moved[first:], self.fields)
        for name, values in self._fields.items():
            values[first : len(slots.kept)] = values[slots.kept[first:]]
            values[len(slots.kept) : self.size] = ABSENT.get(name, 0)
        self.size, self.dropped = len(slots.kept), self.dropped + 1
        self._count()

    def check_follows(self) -> None:
        """Reject the edit if a field is not declared."""
        for name in (*self._fields, *self.counters):
            if name not in self._follows:
                raise InputError(
                    f"the memory keeps {name!r} with its samples, and cannot update it when "
                    "classes or samples are removed: declare it in `stored` of the method, or in "
                    "`follows` of the storing policy (evenstream.edits)"
                )

    def _count(self) -> None:
        least = len(self.class_counts)
        labels = self.field(Y) if self.size else self.class_counts[:0]
        self.class_counts = torch.bincount(labels, minlength=least)

    def clear(self) -> None:
        """Forget all samples (offline methods refill the memory at task ends)."""
        self._remember(torch.zeros(0, dtype=torch.int64), ())
        self._note_write(None)
        self.size, self._fields = 0, {}
        self.class_counts = torch.zeros_like(self.class_counts)

    def _remember(self, slots: Tensor, fields: tuple[str, ...]) -> None:
        """Record in the journal how to undo a write to these slots (arrays are shared)."""
        self._note_write(slots)
        if self._journal is None:
            return
        size, class_counts, arrays = self.size, self.class_counts, dict(self._fields)
        before = {name: arrays[name][slots] for name in fields if name in arrays}

        def undo() -> None:
            self.size, self.class_counts, self._fields = size, class_counts, arrays
            for name, rows in before.items():
                arrays[name][slots] = rows

        self._journal.append(undo)

    def _fit_field(self, name: str, rows: Tensor) -> None:
        """Allocate a field at its first write; widen it if the head has grown since."""
        if name not in self._fields:
            shape = (self.capacity, *rows.shape[1:])
            value = ABSENT.get(name, 0)
            try:
                self._fields[name] = torch.full(shape, value, dtype=rows.dtype, device=self.device)
            except RuntimeError as error:  # PyTorch has no specific error type for this on the CPU
                size = math.prod(shape) * rows.element_size() / 2**30
                raise InputError(
                    f"a memory of {self.capacity:,} samples needs {size:,.1f} GiB at once, "
                    f"which is not available ({str(error).partition(chr(10))[0]}); keep fewer"
                ) from None
            return
        stored = self._fields[name]
        if rows.ndim == 2 and name not in (X, Y) and rows.shape[1] > stored.shape[1]:
            self._fields[name] = F.pad(stored, (0, rows.shape[1] - stored.shape[1]))

    def check_room(self, raw: Tensor) -> None:
        """Reject a capacity for which this machine has too little memory, given some samples."""
        row = raw[:1].nbytes + torch.int64.itemsize
        check_room(f"a memory of {self.capacity:,} samples", self.capacity * row, self.device)

    def _note_write(self, slots: Tensor | None) -> None:
        self._writes += 1
        self._recent.append(slots)

    def follow(self, other: Memory) -> None:
        """Become a copy of another memory; only what was written since the last time is copied."""
        missed = other._writes - self._writes
        recent = list(other._recent)[len(other._recent) - missed :] if missed else []
        slots = [each for each in recent if each is not None]
        whole = missed > len(other._recent) or len(slots) < len(recent)
        before, self._fields = self._fields, {}
        for name, values in other._fields.items():
            mine = before.get(name)
            if whole or mine is None or mine.shape != values.shape:
                mine = values.clone()
            elif slots:
                changed = torch.cat(slots)
                mine[changed] = values[changed]
            self._fields[name] = mine
        self.seen, self.size, self._writes = other.seen, other.size, other._writes
        self.class_counts, self.counters = other.class_counts, dict(other.counters)

    def mark(self) -> Any:
        """Start recording what writes replace, so that a rejected step can be undone."""
        self._journal = []
        return self.seen, dict(self.counters)

    def restore(self, mark: Any) -> None:
        """Undo every write since the mark."""
        for undo in reversed(self._journal or []):
            undo()
            self._note_write(None)
        self._journal = None
        self.seen, self.counters = mark

    def settle(self) -> None:
        """Keep what was written since the mark."""
        self._journal = None

    def state(self) -> dict[str, Any]:
        """The filled part of every field and the counters."""
        return {
            "seen": self.seen,
            "size": self.size,
            "class_counts": self.class_counts,
            "fields": {name: self.field(name) for name in self._fields},
            **({"counters": dict(self.counters)} if self.counters else {}),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a saved memory; capacities must agree (as the learner's options ensure)."""
        if self._journal is not None:
            before = dict(vars(self))
            self._journal.append(lambda: vars(self).update(before))
        self._note_write(None)
        self.seen, self.size = whole_number(state, "seen"), whole_number(state, "size")
        counters = state.get("counters", {})
        self.counters = {name: value.to(self.device) for name, value in counters.items()}
        self._fields = {}
        for name, rows in state["fields"].items():
            if len(rows) != self.size:
                raise ValueError(f"its field {name!r} has {len(rows)} rows, not {self.size}")
            self._fit_field(name, rows)
            self._fields[name][: self.size] = rows.to(self.device)
        self.class_counts = counts = state["class_counts"].to(self.device)
        labels = self.field(Y) if self.size else torch.zeros(0, dtype=torch.int64)
        if not torch.equal(counts.cpu(), torch.bincount(labels.cpu(), minlength=len(counts))):
            raise ValueError("its class counts are not those of its labels")
