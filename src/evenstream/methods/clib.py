"""CLIB: train only from a class-balanced memory that keeps its most useful samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Positive, Share
from evenstream.core.classifier import evaluation_mode
from evenstream.core.edits import WHOLE, PerSlot, SlotIndices, by_name
from evenstream.core.memory import Placement, X, Y
from evenstream.core.outputs import plain_batches
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.mro import MemoryOnly
from evenstream.policies.storing import Storing

IMPORTANCE, ARRIVED = "importance", "arrived"


@register("clib")
@dataclass
class CLIB(MemoryOnly):
    """Evict from the largest class the sample that has helped the memory least."""

    citation = "Koh et al., Online Continual Learning on Class Incremental Blurry Task, 2022"
    cost = "F(b+m) + G(b+m) + F(whole memory) every `period` steps"
    memory_first = True
    follows = by_name({"losses": PerSlot(), "drawn": SlotIndices(), "replaced": SlotIndices()})
    stored = by_name({IMPORTANCE: WHOLE, ARRIVED: WHOLE})

    period: Positive = 3
    """Steps between two evaluations of the loss on the whole memory."""
    keep: Share = 0.9
    """Share of the importance that is kept at each evaluation."""
    ties: Literal["slot", "oldest"] = "slot"
    """Which of several equally unimportant samples to evict: the one in the lowest slot, or the one
    that arrived first, as in the public code."""

    def make_storing(self) -> Storing:
        """Class-balanced, by importance."""
        return LeastImportantOfTheLargestClass(oldest_first=self.ties == "oldest")

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """A draw from memory; keeps the drawn and replaced slots for the next refresh."""
        groups = super().training_rows(step)
        assert step.placed is not None and groups[0].slots is not None
        for name, slots in (("drawn", groups[0].slots), ("replaced", step.placed.slots)):
            before = self.tensors.get(name, slots[:0])
            self.tensors[name] = torch.cat([before, slots])
        return groups

    def after_step(self, step: Step) -> None:
        """Every `period` steps, credit the drawn samples with the change of the memory's loss."""
        if step.number % self.period or not len(step.memory):
            return
        losses = memory_losses(step)
        importance = step.memory.field(IMPORTANCE)
        drawn, replaced = self.tensors.pop("drawn"), self.tensors.pop("replaced")
        previous = self.tensors.get("losses", losses[:0])
        every = torch.arange(len(importance), device=importance.device)
        fresh = refreshed_importance(importance, previous, losses, drawn, replaced, self.keep)
        step.memory.set_field(IMPORTANCE, every, fresh)
        self.tensors["losses"] = losses


class LeastImportantOfTheLargestClass(Storing):
    """Stores every new sample; a full memory gives up a sample of its largest class.

    Args:
        oldest_first: of equally important samples, give up the one that arrived first, not the one
            in the lowest slot.
    """

    def __init__(self, oldest_first: bool = False) -> None:
        self.oldest_first = oldest_first

    def place(self, step: Step, rows: Rows) -> Placement:
        """Decide on new samples one by one, since each changes what the next one finds."""
        memory, first = step.memory, step.memory.seen
        memory.seen += len(rows)
        size = len(memory)
        labels = np.zeros(memory.capacity, dtype=np.int64)
        importance = np.zeros(memory.capacity, dtype=np.float32)
        arrived = np.arange(memory.capacity)
        if size:
            labels[:size] = memory.field(Y).cpu().numpy()
            importance[:size] = memory.field(IMPORTANCE).cpu().numpy()
            if self.oldest_first:
                arrived[:size] = memory.field(ARRIVED).cpu().numpy()
        writer: dict[int, int] = {}
        for row, label in enumerate(rows.y.tolist()):
            if size < memory.capacity:
                slot, size = size, size + 1
                others = importance[: size - 1][labels[: size - 1] == label]
                value = others.mean() if len(others) else 0.0
            else:
                slot = _evicted(labels, importance, arrived, label)
                own = labels == label
                own[slot] = False
                value = importance[own].mean() if own.any() else importance.mean()
            labels[slot], importance[slot], writer[slot] = label, value, row
            if self.oldest_first:
                arrived[slot] = first + row
        device = rows.y.device
        slots = torch.tensor(list(writer))
        fields = {IMPORTANCE: importance} | ({ARRIVED: arrived} if self.oldest_first else {})
        kept = {name: torch.from_numpy(of_all)[slots].to(device) for name, of_all in fields.items()}
        chosen = torch.tensor(list(writer.values()), device=device)
        return Placement(slots.to(device), chosen, kept)


def _evicted(labels: np.ndarray, importance: np.ndarray, arrived: np.ndarray, newcomer: int) -> int:
    """The least important slot of the class that would be largest with the new sample."""
    stored = np.bincount(labels, minlength=newcomer + 1)
    counted = stored.copy()
    counted[newcomer] += 1
    largest = int(np.where(stored > 0, counted, -1).argmax())
    members = np.flatnonzero(labels == largest)
    members = members[arrived[members].argsort()]
    return int(members[importance[members].argmin()])


def refreshed_importance(
    importance: Tensor,
    previous: Tensor,
    losses: Tensor,
    drawn: Tensor,
    replaced: Tensor,
    keep: float,
) -> Tensor:
    """Importance grows for drawn slots when the loss of the whole memory fell since last time."""
    common = min(len(previous), len(losses))
    untouched = torch.ones(common, dtype=torch.bool, device=losses.device)
    untouched[replaced[replaced < common]] = False
    change = (losses[:common] - previous[:common])[untouched]
    delta = change.mean() if len(change) else losses.new_zeros(())
    if not len(drawn):
        return importance
    delta = delta - importance[drawn].mean() / len(drawn)
    fresh = importance.clone()
    fresh[torch.unique(drawn)] -= (1 - keep) * delta
    return fresh


def memory_losses(step: Step) -> Tensor:
    """Plain cross-entropy of every stored sample, un-augmented, in eval mode."""
    with evaluation_mode(step.network):
        batches = plain_batches(step.preprocess, step.memory.field(X))
        logits = torch.cat([step.network(x) for x in batches])
    return F.cross_entropy(logits, step.memory.field(Y), reduction="none")
