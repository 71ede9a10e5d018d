"""ASER_mu: replay and keep samples by their Shapley value for nearest-neighbour classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evenstream.bounds import Positive
from evenstream.core.classifier import evaluation_mode
from evenstream.core.memory import Placement, Y
from evenstream.core.outputs import plain_batches
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.methods.parts.balanced import slots_per_class
from evenstream.methods.parts.shapley import knn_shapley
from evenstream.policies.retrieval import Retrieval, Uniform
from evenstream.policies.storing import Storing

Friends = Literal["any", "others"]


@register("aser")
@dataclass
class ASER(Replay):
    """Replay samples that support the memory but oppose the incoming batch; evict low values."""

    citation = "Shim et al., Adversarial Shapley Value Experience Replay, 2021"
    cost = "2 F(b + 2·per_class·classes, at most b + memory) + F(b+m) + G(b+m)"

    neighbours: Positive = 5
    """K of the nearest-neighbour classifier."""
    per_class: Positive = 6
    """Candidates and evaluation points drawn from each class."""
    friends: Friends = "any"
    """Stored samples against which candidates are valued: up to `per_class` of each class from the
    whole memory, or from those that are not candidates, as in the references. A class with at most
    `per_class` samples has none of the latter (see `AdversarialShapley`)."""

    def make_retrieval(self) -> Retrieval:
        """Adversarial Shapley retrieval."""
        return AdversarialShapley(self.neighbours, self.per_class, self.friends)

    def make_storing(self) -> Storing:
        """Shapley update."""
        return HighestShapleyValues(self.neighbours, self.per_class)


class AdversarialShapley(Retrieval):
    """Candidates with the highest mean value for the memory minus that for the batch.

    Without friends in the memory only the second term counts, and the same few classes near the
    batch are replayed while all others are forgotten: with 5 samples per class, `friends=others` is
    26 points less accurate on digits (docs/appendix/results.md).
    """

    def __init__(self, neighbours: int, per_class: int, friends: Friends = "any") -> None:
        self.neighbours, self.per_class, self.friends = neighbours, per_class, friends

    def pick(self, step: Step, count: int) -> Rows:
        """Uniform until the memory is full."""
        memory, generator = step.memory, step.randomness.retrieve
        if len(memory) < memory.capacity:
            return Uniform().pick(step, count)
        labels = memory.field(Y)
        slots = slots_per_class(labels, self.per_class, generator, replacement=False)
        rest = others(len(memory), slots[:0] if self.friends == "any" else slots)
        friends = rest[slots_per_class(labels[rest], self.per_class, generator, replacement=False)]
        candidates, supported = stored(step, slots, friends)
        against = knn_shapley(
            features(step, step.incoming), step.incoming.y, *candidates, self.neighbours
        )
        score = -against.mean(0)
        if len(friends):
            score = score + knn_shapley(*supported, *candidates, self.neighbours).mean(0)
        return step.fetch(slots[score.argsort(descending=True, stable=True)[:count].cpu()])


class HighestShapleyValues(Storing):
    """Fills free slots, then lets incoming samples compete with stored ones by Shapley value."""

    def __init__(self, neighbours: int, per_class: int) -> None:
        self.neighbours, self.per_class = neighbours, per_class

    def place(self, step: Step, rows: Rows) -> Placement:
        """Free slots first, then replacement one to one."""
        memory, device = step.memory, rows.y.device
        memory.seen += len(rows)
        free = min(memory.capacity - len(memory), len(rows))
        fill = torch.arange(free, device=device)
        slots, chosen = [len(memory) + fill], [fill]
        if free < len(rows):
            current = torch.arange(free, len(rows), device=device)
            replaced, winners = self.replacements(step, rows.take(current))
            slots.append(replaced.to(device))
            chosen.append(current[winners])
        return Placement(torch.cat(slots), torch.cat(chosen))

    def replacements(self, step: Step, current: Rows) -> tuple[Tensor, Tensor]:
        """Slots that lose their sample, and the incoming rows that replace them.

        Evaluation points are not candidates unless that leaves too few: otherwise a memory with at
        most `per_class` samples per class would never change again.
        """
        memory, generator = step.memory, step.randomness.reservoir
        nothing = current.y[:0]
        if not len(memory):
            return nothing, nothing
        evaluation = slots_per_class(memory.field(Y), self.per_class, generator, replacement=False)
        rest = others(len(memory), evaluation)
        if len(rest) < len(current):
            rest = torch.arange(len(memory))
        rest = rest[torch.randperm(len(rest), generator=generator)]
        slots = rest[: self.per_class * step.n_classes]
        (judges, judge_labels), (candidates, labels) = stored(step, evaluation, slots)
        arriving, minority = features(step, current), self.minority(step, current, generator)
        value = knn_shapley(
            torch.cat([judges, arriving[minority]]),
            torch.cat([judge_labels, current.y[minority]]),
            torch.cat([candidates, arriving]),
            torch.cat([labels, current.y]),
            self.neighbours,
        ).sum(0)
        order = value.argsort(descending=True, stable=True)
        kept, dropped = order[: len(slots)], order[len(slots) :]
        winners = kept[kept >= len(slots)] - len(slots)
        return slots.to(dropped.device)[dropped[dropped < len(slots)]], winners

    def minority(self, step: Step, current: Rows, generator: torch.Generator) -> Tensor:
        """Which rows belong to a class whose share of the memory is below a random threshold."""
        threshold = float(torch.rand((), generator=generator)) / step.n_classes
        counts = step.memory.class_counts
        counts = torch.nn.functional.pad(counts, (0, max(0, step.n_classes - len(counts))))
        share = counts.to(current.y.device)[current.y] / len(step.memory)
        return share < threshold


def others(size: int, slots: Tensor) -> Tensor:
    """All slots below `size` except the given ones."""
    free = torch.ones(size, dtype=torch.bool)
    free[slots] = False
    return free.nonzero().squeeze(1)


def stored(step: Step, *groups: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Features and labels of groups of slots; a slot in several groups is computed once."""
    slots, places = torch.unique(torch.cat(groups), return_inverse=True)
    rows = step.fetch(slots)
    known = features(step, rows)
    parts = torch.split(places.to(known.device), [len(group) for group in groups])
    return [(known[part], rows.y[part]) for part in parts]


def features(step: Step, rows: Rows) -> Tensor:
    """Penultimate features of un-augmented rows, in eval mode."""
    with evaluation_mode(step.network):
        batches = plain_batches(step.preprocess, rows.raw)
        return torch.cat([step.network.features(x) for x in batches])
