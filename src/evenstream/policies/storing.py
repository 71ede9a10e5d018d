"""Storing policies: which offered rows enter the memory, and into which slots."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from evenstream.core.memory import Memory, Placement
from evenstream.core.rows import Rows
from evenstream.core.step import Step

__all__ = [
    "AtTaskEnd",
    "Placement",
    "Reservoir",
    "Rows",
    "Storing",
    "last_writer_wins",
    "reservoir_slots",
]


class Storing:
    """Decides where rows go; the learner writes them."""

    def place(self, step: Step, rows: Rows) -> Placement:
        """Choose slots for the offered rows, in arrival order."""
        raise NotImplementedError


class Reservoir(Storing):
    """Every sample seen so far is in memory with the same probability."""

    def place(self, step: Step, rows: Rows) -> Placement:
        """Draw the slots."""
        slots, chosen = reservoir_slots(step.memory, len(rows), step.randomness.reservoir)
        return Placement(slots.to(rows.y.device), chosen.to(rows.y.device))


class AtTaskEnd(Storing):
    """Nothing enters the memory in a step; the method fills it when the task is over."""

    def place(self, step: Step, rows: Rows) -> Placement:
        """No slots."""
        return Placement(rows.y[:0], rows.y[:0])


def reservoir_slots(memory: Memory, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Vitter's algorithm R, exact sample by sample, drawn for the whole batch at once.

    The sample that arrives as number n (from 0) goes to slot n while there is room; afterwards j
    is drawn uniformly from {0..n} and the sample replaces slot j if j < capacity. Counts the
    samples in `memory.seen`. Returns distinct slots and the row that ends up in each.
    """
    arrival = torch.arange(memory.seen, memory.seen + count)
    memory.seen += count
    uniform = torch.rand(count, generator=generator, dtype=torch.float64)
    drawn = (uniform * (arrival + 1)).long()
    slots = torch.where(arrival < memory.capacity, arrival, drawn)
    rows = (slots < memory.capacity).nonzero().squeeze(1)
    return last_writer_wins(slots[rows], rows)


def last_writer_wins(slots: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Keep, for each slot, the last row written to it, as one write after the other would."""
    distinct, position = torch.unique(slots, return_inverse=True)
    last = torch.zeros_like(distinct).scatter_reduce_(0, position, rows, "amax")
    return distinct, last
