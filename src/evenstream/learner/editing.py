"""Corrections: labels and samples that are changed or deleted after they were learned.

Each runs inside a learner's transaction. Everything kept per class or stored sample is updated
through `LearnerState.pieces`; rows collected for the next step are handled here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from evenstream.core.edits import Compaction, Regrouping
from evenstream.core.ids import digests, where
from evenstream.core.labels import Label, label_key, label_to_json
from evenstream.core.memory import ID, WEIGHT, X, Y
from evenstream.core.part import Correction
from evenstream.core.progress import Waiting
from evenstream.errors import InputError, some_of
from evenstream.learner.engine import Engine

What = Literal["relabel", "forget", "rename", "merge", "remove_class"]


@dataclass(frozen=True)
class Edit:
    """What a correction has changed; it does not reveal which samples those were."""

    what: What
    samples: int = 0
    """Number of samples in the memory that were relabelled or deleted."""
    gathered: int = 0
    """The same for rows that `accumulate` had collected."""
    tickets: int = 0
    """Number of tickets whose row was deleted."""
    labels: tuple[Label, ...] = ()
    """The labels concerned."""
    missing: tuple[Label, ...] = ()
    """Ids for which nothing was found: never given, or the memory has dropped the sample."""

    @property
    def event(self) -> dict[str, Any]:
        """The entry for a log, without ids."""
        return {
            "event": self.what,
            "samples": self.samples,
            "gathered": self.gathered,
            "tickets": self.tickets,
            "labels": [label_to_json(label) for label in self.labels],
        }


def relabel(learner: Engine, ids: list[Label], label: Label) -> Edit:
    """Give all samples with these ids another label, which may be a new one."""
    check(learner)
    found = _Found(learner, ids)
    if not found.any:
        return Edit("relabel", labels=(label,), missing=found.missing)
    if len(found.slots):
        (index,) = learner.add_labels([label]).tolist()
        before = learner.memory.field(Y)[found.slots]
        wrong = found.slots[before != index]
        after = torch.full_like(wrong, index)
        _correct(learner, wrong, after)
        learner.memory.relabel(wrong, after)
        found.slots = wrong
        if len(wrong):
            learner.recalibrate()
    gathered = _gathered(learner, found.waits, lambda batch, row: label)
    return Edit("relabel", len(found.slots), gathered, labels=(label,), missing=found.missing)


def forget_ids(learner: Engine, ids: list[Label]) -> Edit:
    """Delete all samples with these ids."""
    check(learner)
    found = _Found(learner, ids)
    _correct(learner, found.slots, None)
    _delete(learner, found.slots)
    if len(found.slots):
        learner.recalibrate()
    gathered = _gathered(learner, found.waits, None)
    learner.tickets.delete(found.tickets)
    return Edit("forget", len(found.slots), gathered, len(found.tickets), missing=found.missing)


def forget_label(learner: Engine, label: Label) -> Edit:
    """Delete all samples of a class, which stays."""
    check(learner)
    samples, gathered = _forget_class(learner, class_of(learner, label))
    learner.recalibrate()
    return Edit("forget", samples, gathered, labels=(label,))


def forget_rows(learner: Engine, raw: Tensor, labels: list[Label], weights: Tensor | None) -> Edit:
    """Delete rows given by value: their stored copies, and their part in closed forms."""
    check(learner)
    y = torch.tensor([class_of(learner, label) for label in labels], device=learner.device)
    raw = raw.to(learner.device)
    own = torch.ones(len(raw)) if weights is None else weights
    waiting = {_key(row, label) for row, label in zip(raw, labels, strict=True)}
    taken: set[Any] = set()

    def is_meant(batch: Waiting, row: int) -> bool:
        key = _key(batch.rows[row], batch.labels[row])
        if key in waiting:
            taken.add(key)
        return key in waiting

    gathered = _gathered(learner, is_meant, None)
    learned = [n for n, (row, label) in enumerate(zip(raw, labels, strict=True))
               if _key(row, label) not in taken]  # fmt: skip
    if learned:
        rows = Correction(raw[learned], y[learned], None, own[learned].to(learner.device))
        for part in learner.composition.parts:
            part.on_correction(learner, rows)
    memory, slots = learner.memory, torch.zeros(0, dtype=torch.int64, device=learner.device)
    if len(memory):
        names, stored = learner.labels, memory.field(X)
        indices = memory.field(Y).tolist()
        slots = torch.tensor(
            [n for n in range(len(memory)) if _key(stored[n], names[indices[n]]) in waiting],
            dtype=torch.int64,
            device=memory.device,
        )
    _delete(learner, slots)
    if learned or len(slots):
        learner.recalibrate()
    inputs = {row for row, _ in waiting}
    asked = [n for n, held in learner.tickets.held.items() if _bytes(held.row) in inputs]
    learner.tickets.delete(asked)
    return Edit("forget", len(slots), gathered, len(asked))


def rename(learner: Engine, old: Label, new: Label) -> Edit:
    """Rename a class."""
    index = class_of(learner, old)
    if learner.label_map.get(new) == index:
        raise InputError(f"the class is already called {new!r}")
    if learner.label_map.get(new) is not None:
        raise InputError(f"there is already a class {new!r}; merge({old!r}, {new!r}) joins the two")
    learner.label_map.rename(index, new)
    gathered = _relabel_gathered(learner, old, new)
    _announce(learner, old, new)
    return Edit("rename", 0, gathered, labels=(old, new))


def merge(learner: Engine, old: Label, into: Label) -> Edit:
    """Merge a class into another."""
    gone, target = class_of(learner, old), class_of(learner, into)
    if gone == target:
        raise InputError(f"{old!r} cannot be merged into itself")
    check(learner)
    samples = int(_counts(learner)[gone])
    _regroup(learner, Regrouping(len(learner.label_map), gone, target))
    learner.recalibrate()
    gathered = _relabel_gathered(learner, old, into)
    _announce(learner, old, into)
    return Edit("merge", samples, gathered, labels=(old, into))


def remove_class(learner: Engine, label: Label) -> Edit:
    """Delete a class with all its samples."""
    check(learner)
    index = class_of(learner, label)
    samples, gathered = _forget_class(learner, index)
    _regroup(learner, Regrouping(len(learner.label_map), index))
    learner.recalibrate()
    _announce(learner, label, None)
    return Edit("remove_class", samples, gathered, labels=(label,))


# ---- what they share -----------------------------------------------------------------------------


def check(learner: Engine) -> None:
    """Reject the edit if a part of the learner cannot follow right now."""
    for part in learner.composition.parts:
        reason = part.why_not_edit()
        if reason is not None:
            raise InputError(f"labels and samples cannot be changed now: {reason}")


def class_of(learner: Engine, label: Label) -> int:
    """The class index of a label that was learned."""
    index = learner.label_map.get(label)
    if index is None:
        known = some_of(list(map(repr, learner.labels)), 10) or "none"
        raise InputError(f"there is no class {label!r}; known: {known}")
    return index


class _Found:
    """Samples with one of some ids: stored ones by slot, and a test for collected ones."""

    def __init__(self, learner: Engine, ids: list[Label]) -> None:
        memory = learner.memory
        self.wanted = digests(ids)
        self.slots = torch.zeros(0, dtype=torch.int64, device=memory.device)
        met: set[int] = set()
        if len(memory) and ID in memory.fields:
            places = where(memory.field(ID), self.wanted)
            self.slots = (places >= 0).nonzero().squeeze(1).to(memory.device)
            met.update(places.tolist())
        self._waiting = []
        for batch in learner.progress.pending:
            places = torch.full((len(batch),), -1)
            if batch.ids is not None:
                places = where(batch.ids, self.wanted)
            met.update(places.tolist())
            self._waiting.append((batch, places >= 0))
        found = learner.tickets.with_ids(self.wanted)
        self.any = bool(met - {-1})
        self.tickets = list(found)
        met.update(found.values())
        if not memory.capacity and not met - {-1}:
            raise InputError(
                f"{learner.text} stores no samples, so none can be found by an id; pass what was "
                "learned: forget(x=..., labels=...)"
            )
        self.missing = tuple(each for place, each in enumerate(ids) if place not in met)

    def waits(self, batch: Waiting, row: int) -> bool:
        """Whether a collected row is affected."""
        return any(own is batch and bool(meant[row]) for own, meant in self._waiting)


def _correct(learner: Engine, slots: Tensor, after: Tensor | None) -> None:
    """Tell the parts which stored samples are relabelled or deleted."""
    if not len(slots):
        return
    rows = {name: values.to(learner.device) for name, values in learner.memory.rows(slots).items()}
    weights = rows.get(WEIGHT, torch.ones(len(slots), device=learner.device))
    for part in learner.composition.parts:
        part.on_correction(learner, Correction(rows[X], rows[Y], after, weights))


def _delete(learner: Engine, slots: Tensor) -> None:
    """Delete stored samples."""
    if not len(slots):
        return
    memory, before = learner.memory, learner.memory.class_counts
    change = Compaction.without(slots.to(memory.device), len(memory))
    for piece in learner.pieces.values():
        piece.compact(change)
    learner.composition.storing.forgotten(memory, before)


def _counts(learner: Engine) -> Tensor:
    """Stored samples of each class."""
    y = learner.memory.field(Y) if len(learner.memory) else torch.zeros(0, dtype=torch.int64)
    return torch.bincount(y, minlength=len(learner.label_map))


def _forget_class(learner: Engine, index: int) -> tuple[int, int]:
    """Delete all samples of a class; returns how many were stored and collected."""
    memory, label = learner.memory, learner.label_map[index]
    slots = torch.zeros(0, dtype=torch.int64)
    if len(memory):
        slots = (memory.field(Y) == index).nonzero().squeeze(1)
    for part in learner.composition.parts:
        part.forget_class(index)
    _delete(learner, slots)
    return len(slots), _gathered(learner, lambda b, row: same(b.labels[row], label), None)


def _regroup(learner: Engine, classes: Regrouping) -> None:
    for piece in learner.pieces.values():
        piece.regroup(classes)


def same(one: Label, other: Label) -> bool:
    """Whether two labels are the same; `True` is not `1`."""
    return bool(label_key(one) == label_key(other))


def _gathered(
    learner: Engine,
    is_meant: Callable[[Waiting, int], bool],
    new: Callable[[Waiting, int], Label] | None,
) -> int:
    """Relabel or drop collected rows; returns how many there were."""
    changed, pending = 0, []
    for batch in learner.progress.pending:
        meant = [is_meant(batch, row) for row in range(len(batch))]
        changed += sum(meant)
        if new is None:
            batch = batch.take([row for row, gone in enumerate(meant) if not gone])
        elif any(meant):
            labels = [new(batch, n) if m else batch.labels[n] for n, m in enumerate(meant)]
            batch = replace(batch, labels=labels)
        if len(batch):
            pending.append(batch)
    learner.progress.pending = pending
    return changed


def _relabel_gathered(learner: Engine, old: Label, new: Label) -> int:
    return _gathered(learner, lambda b, row: same(b.labels[row], old), lambda b, row: new)


def _announce(learner: Engine, old: Label, new: Label | None) -> None:
    """Update the announced label counts of a task."""
    counts = learner.progress.task_counts
    if counts is None:
        return
    found: dict[Any, tuple[Label, int]] = {}
    for label, count in counts.items():
        if not same(label, old):
            own = label
        elif new is None:
            continue
        else:
            own = new
        key = label_key(own)
        found[key] = own, count + found.get(key, (own, 0))[1]
    learner.progress.task_counts = dict(found.values())


def _key(row: Tensor, label: Label) -> tuple[bytes, Any]:
    return _bytes(row), label_key(label)


def _bytes(row: Tensor | str) -> bytes:
    return row.encode() if isinstance(row, str) else bytes(row.cpu().numpy().tobytes())
