"""The update slot: which rows of a batch enter the memory, and into which slots."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from evenstream.learner.memory import Memory


class Update:
    """Decides slots for a batch; the learner writes the rows."""

    def slots(self, memory: Memory, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return (slots, rows): row `rows[i]` of the batch goes to `slots[i]`, slots distinct."""
        raise NotImplementedError


def last_writer_wins(slots: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Keep, for each slot, the last row written to it, as one write after the other would."""
    distinct, position = torch.unique(slots, return_inverse=True)
    last = torch.zeros_like(distinct).scatter_reduce_(0, position, rows, "amax")
    return distinct, last


class Reservoir(Update):
    """Vitter's algorithm R, exact sample by sample, drawn for the whole batch at once.

    The sample that arrives as number n (from 0) goes to slot n while there is room; afterwards j
    is drawn uniformly from {0..n} and the sample replaces slot j if j < capacity. Every sample
    seen is then in memory with the same probability.
    """

    def slots(self, memory: Memory, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Draw a slot for each row, in arrival order."""
        arrival = torch.arange(memory.seen, memory.seen + len(labels))
        memory.seen += len(labels)
        uniform = torch.rand(len(labels), generator=generator, dtype=torch.float64)
        drawn = (uniform * (arrival + 1)).long()
        slots = torch.where(arrival < memory.capacity, arrival, drawn)
        rows = (slots < memory.capacity).nonzero().squeeze(1)
        slots, rows = last_writer_wins(slots[rows], rows)
        return slots.to(labels.device), rows.to(labels.device)
