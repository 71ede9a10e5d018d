"""Retrieval policies: which stored rows a step replays."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from evenstream.core.part import Part
from evenstream.core.rows import Rows
from evenstream.core.step import Step

__all__ = [
    "ExceptHeldOut",
    "OncePerEpoch",
    "Retrieval",
    "Rows",
    "Uniform",
]

HELD_OUT = "held_out"
"""The stored field that says which rows are not trained on (`ExceptHeldOut`)."""
PERMUTE_UP_TO = 4096
"""Below this size, a whole permutation is cheaper than checking for repeated draws."""


class Retrieval:
    """Picks rows from the memory as it was before the incoming batch."""

    def pick(self, step: Step, count: int) -> Rows:
        """At most `count` rows; none if the memory is empty."""
        raise NotImplementedError


class Uniform(Retrieval):
    """min(count, |memory|) rows, uniformly, without replacement."""

    def pick(self, step: Step, count: int) -> Rows:
        """Draw the slots and fetch them."""
        return step.fetch(draw_distinct(len(step.memory), count, step.randomness.retrieve))


class ExceptHeldOut(Uniform):
    """Uniformly, but for rows that are held out from training."""

    def pick(self, step: Step, count: int) -> Rows:
        """Draw from the slots of the others."""
        if HELD_OUT not in step.memory.fields:
            return super().pick(step, count)
        slots = (step.memory.field(HELD_OUT) == 0).nonzero().squeeze(1).cpu()
        return step.fetch(slots[draw_distinct(len(slots), count, step.randomness.retrieve)])


class OncePerEpoch(Retrieval):
    """Every stored row comes back once in an epoch, at random: task and memory shuffled together.

    Each stored row is assigned a position in the epoch, so the sizes of batches may vary.
    If a stream drops the short batch at the end, the rows assigned to it are dropped too, as if
    task and memory were one shuffled set; the next epoch draws again.

    Args:
        owner: the part whose tensors hold the positions, so that they are saved.
    """

    DUE, PASSED = "due", "passed"

    def __init__(self, owner: Part) -> None:
        self.owner = owner

    def shuffle(self, stored: int, incoming: int, generator: Generator) -> None:
        """Start an epoch: draw positions of the `stored` rows among the `incoming` ones."""
        self.owner.tensors[self.DUE] = torch.randint(incoming, (stored,), generator=generator)
        self.owner.tensors[self.PASSED] = torch.tensor(0)

    def pick(self, step: Step, count: int) -> Rows:
        """The rows assigned to this batch, however many."""
        due, passed = self.owner.tensors[self.DUE], self.owner.tensors[self.PASSED]
        now = passed + len(step.incoming)
        self.owner.tensors[self.PASSED] = now
        return step.fetch(((due >= passed) & (due < now)).nonzero().squeeze(1))


def draw_distinct(size: int, count: int, generator: Generator) -> Tensor:
    """min(count, size) distinct numbers below `size`, all equally likely, in random order.

    A large memory is sampled in O(count): repeated numbers are drawn again.
    """
    if size <= PERMUTE_UP_TO or 4 * count > size:
        return torch.randperm(size, generator=generator)[:count]
    drawn = torch.randint(size, (count,), generator=generator)
    while True:
        ordered, position = drawn.sort(stable=True)
        repeated = torch.zeros(len(drawn), dtype=torch.bool)
        repeated[position[1:]] = ordered[1:] == ordered[:-1]
        if not bool(repeated.any()):
            return drawn
        fresh = torch.randint(size, (int(repeated.sum()),), generator=generator)
        drawn = torch.cat([drawn[~repeated], fresh])


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
