"""Storing policies: which offered rows enter the memory, and into which slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from evenstream.core.classes import pad_classes
from evenstream.core.edits import WHOLE, Follows, PerClass, by_name
from evenstream.core.memory import Memory, Placement, Y
from evenstream.core.part import declare_late
from evenstream.core.rows import Rows
from evenstream.core.step import Step

__all__ = [
    "STORING",
    "AtTaskEnd",
    "BalancedReservoir",
    "ClassBalanced",
    "GreedyBalanced",
    "Placement",
    "Reservoir",
    "Rows",
    "Storing",
]

Counts = NDArray[np.int64]
"""Number of stored samples per class."""


VACANT, DEPARTED = "vacant", "departed"
"""Forgotten samples not yet compensated by arrivals: those that were stored, and all."""


class Storing:
    """Decides where rows go; the learner writes them."""

    follows: ClassVar[Mapping[str, Follows]] = {}
    """Its counters and fields in the memory (`evenstream.edits`)."""
    may_refuse_late: ClassVar[bool] = True
    """Whether `place` may reject rows after the weights were updated, which must then be
    restored."""

    def __init_subclass__(cls) -> None:
        """Assume that a subclass's own `place` can fail."""
        declare_late(cls, "place")

    def place(self, step: Step, rows: Rows) -> Placement:
        """Choose slots for the offered rows, in arrival order."""
        raise NotImplementedError

    def forgotten(self, memory: Memory, before: Tensor) -> None:
        """Called when samples have just left the memory, which held `before` of each class."""


class Reservoir(Storing):
    """Every sample seen so far is in memory with the same probability.

    This stays true when samples are forgotten. For each stored one, the count of samples seen drops
    by as many as it represented; the next arrivals then compensate for them by random pairing
    (Gemulla et al., A Dip in the Reservoir, 2006): some get the free slots, others are not stored.
    """

    follows = by_name({VACANT: WHOLE, DEPARTED: WHOLE})

    may_refuse_late = False

    def place(self, step: Step, rows: Rows) -> Placement:
        """Draw the slots."""
        slots, chosen = reservoir_slots(step.memory, len(rows), step.randomness.reservoir)
        return Placement(slots.to(rows.y.device), chosen.to(rows.y.device))

    def forgotten(self, memory: Memory, before: Tensor) -> None:
        """Count the samples to compensate for."""
        note_vacancies(memory, int(before.sum()))


class AtTaskEnd(Storing):
    """Nothing enters the memory during steps; the method fills it when the task is over."""

    follows = Reservoir.follows

    def place(self, step: Step, rows: Rows) -> Placement:
        """No slots."""
        return Placement(rows.y[:0], rows.y[:0])

    def forgotten(self, memory: Memory, before: Tensor) -> None:
        """The memory filled then may be a reservoir."""
        note_vacancies(memory, int(before.sum()))


class ClassBalanced(Storing):
    """Base of policies that choose the class in which a full memory makes room."""

    def place(self, step: Step, rows: Rows) -> Placement:
        """Decide on new samples one by one, since each changes what the next one finds."""
        memory = step.memory
        memory.seen += len(rows)
        labels = np.full(memory.capacity, -1)
        size = len(memory)
        if size:
            labels[:size] = memory.field(Y).cpu().numpy()
        counts = np.bincount(labels[:size], minlength=step.n_classes)
        self.begin(memory, step.n_classes)
        drawn = torch.rand(2, len(rows), generator=step.randomness.reservoir, dtype=torch.float64)
        writer: dict[int, int] = {}
        for row, label in enumerate(rows.y.tolist()):
            wants, which = drawn[:, row].tolist()
            room = size < memory.capacity
            chosen = self.gives_way(label, counts, memory.capacity, wants, room)
            if chosen is None:
                continue
            if room:
                slot, size = size, size + 1
            else:
                own = np.flatnonzero(labels == chosen)
                slot = int(own[int(which * len(own))])
                counts[chosen] -= 1
            counts[label] += 1
            labels[slot], writer[slot] = label, row
        self.end(memory)
        slots, kept = (torch.tensor(list(each), dtype=torch.long, device=rows.y.device)
                       for each in (writer, writer.values()))  # fmt: skip
        return Placement(slots, kept)

    def begin(self, memory: Memory, n_classes: int) -> None:
        """Load the counts so far."""

    def gives_way(
        self, label: int, counts: Counts, capacity: int, drawn: float, room: bool
    ) -> int | None:
        """The class that gives up a sample for the new one; any, if there is room.

        None means that the new sample is not stored. `drawn` is uniform in 0..1.
        """
        raise NotImplementedError

    def end(self, memory: Memory) -> None:
        """Save the counts."""


class BalancedReservoir(ClassBalanced):
    """Keeps classes as equal in size as the stream allows, each a reservoir of its own samples.

    A class that has ever been the largest is full: its new samples replace its own with the
    probability of a reservoir. New samples of other classes replace those of the largest class
    (Chrysakis and Moens, Online Continual Learning from Imbalanced Data, 2020).
    """

    SEEN, FULL = "seen", "full"
    follows = by_name({SEEN: PerClass(added=True), FULL: PerClass(added=True)})

    def begin(self, memory: Memory, n_classes: int) -> None:
        """The number of samples offered per class, and which classes are full."""
        zeros = torch.zeros(0, dtype=torch.long, device=memory.device)
        found = (memory.counters.get(name, zeros) for name in (self.SEEN, self.FULL))
        self.seen, self.full = (pad_classes(each, n_classes).cpu().numpy().copy() for each in found)

    def gives_way(
        self, label: int, counts: Counts, capacity: int, drawn: float, room: bool
    ) -> int | None:
        """The largest class, or the sample's own."""
        self.seen[label] += 1
        if room:
            return label
        self.full[counts == counts.max()] = 1
        if not self.full[label]:
            return int(counts.argmax())
        return label if drawn < counts[label] / self.seen[label] else None

    def forgotten(self, memory: Memory, before: Tensor) -> None:
        """Reduce the count of each class by as many as its forgotten samples represented."""
        if self.SEEN in memory.counters:
            now, seen = memory.class_counts, memory.counters[self.SEEN]
            share = now / before.clamp_min(1)
            share = torch.where(before > 0, share, 1.0)
            kept = (pad_classes(seen, len(share)) * share).round().long()
            memory.counters[self.SEEN] = torch.maximum(kept, now)

    def end(self, memory: Memory) -> None:
        """Save both."""
        for name, value in ((self.SEEN, self.seen), (self.FULL, self.full)):
            memory.counters[name] = torch.from_numpy(value).to(memory.device)


class GreedyBalanced(ClassBalanced):
    """New samples of classes below an equal share replace samples of the largest class.

    Others are not stored (Prabhu et al., GDumb, 2020).
    """

    def gives_way(
        self, label: int, counts: Counts, capacity: int, drawn: float, room: bool
    ) -> int | None:
        """The largest class, as long as the sample's own is small."""
        classes = np.count_nonzero(counts) + (counts[label] == 0)
        below = counts[label] < capacity / classes
        return int(counts.argmax()) if room or below else None


STORING: dict[str, type[Storing]] = {
    "reservoir": Reservoir,
    "balanced": BalancedReservoir,
    "greedy": GreedyBalanced,
}
"""Policies that any method with a reservoir accepts by name: METHOD:storing=NAME."""


def reservoir_slots(memory: Memory, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Vitter's algorithm R, exact for each sample, drawn for the whole batch at once.

    Sample number n (from 0) goes to slot n while there is room; afterwards j
    is drawn uniformly from {0..n} and the sample replaces slot j if j < capacity. Counts the
    samples in `memory.seen`. Returns distinct slots and the row that ends up in each.
    """
    if VACANT in memory.counters:
        return _paired_slots(memory, count, generator)
    arrival = torch.arange(memory.seen, memory.seen + count)
    memory.seen += count
    uniform = torch.rand(count, generator=generator, dtype=torch.float64)
    drawn = (uniform * (arrival + 1)).long()
    slots = torch.where(arrival < memory.capacity, arrival, drawn)
    rows = (slots < memory.capacity).nonzero().squeeze(1)
    return last_writer_wins(slots[rows], rows)


def note_vacancies(memory: Memory, stored: int) -> None:
    """Let a reservoir that had `stored` samples compensate for forgotten ones."""
    vacant = stored - len(memory)
    if memory.seen < stored or not vacant:  # filled in some other way
        return
    departed = -(-vacant * memory.seen // stored)
    memory.seen -= departed
    for name, more in ((VACANT, vacant), (DEPARTED, departed)):
        earlier = int(memory.counters.get(name, 0))
        memory.counters[name] = torch.tensor(earlier + more, device=memory.device)
    if memory.seen == len(memory):  # all are stored, as at the start
        _made_up(memory)


def _paired_slots(memory: Memory, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """The same while arrivals compensate for forgotten samples, one by one."""
    vacant, departed = (int(memory.counters[name]) for name in (VACANT, DEPARTED))
    writer: dict[int, int] = {}
    size = len(memory)
    for row, drawn in enumerate(
        torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    ):
        slot = memory.capacity
        if departed:
            if drawn * departed < vacant:
                slot, size, vacant = size, size + 1, vacant - 1
            departed -= 1
        else:
            slot = size if size < memory.capacity else int(drawn * (memory.seen + 1))
            size = max(size, min(slot + 1, memory.capacity))
        memory.seen += 1
        if slot < memory.capacity:
            writer[slot] = row
    for name, value in ((VACANT, vacant), (DEPARTED, departed)):
        memory.counters[name] = torch.tensor(value, device=memory.device)
    if not departed:
        _made_up(memory)
    slots, rows = (torch.tensor(list(each), dtype=torch.long) for each in (writer, writer.values()))
    return slots, rows


def _made_up(memory: Memory) -> None:
    memory.counters = {n: t for n, t in memory.counters.items() if n not in (VACANT, DEPARTED)}


def last_writer_wins(slots: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Keep only the last row written to each slot, as successive writes would."""
    distinct, position = torch.unique(slots, return_inverse=True)
    last = torch.zeros_like(distinct).scatter_reduce_(0, position, rows, "amax")
    return distinct, last


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
