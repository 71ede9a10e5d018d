"""What becomes of state when a class is merged or removed, or stored samples are forgotten.

Every piece of a learner follows by one protocol (`regroup`, `compact` of `Stateful`). Methods,
rules and teachers only declare what their tensors are: an entry for each class, class indices, an
entry for each stored sample, or nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

__all__ = [
    "WHOLE",
    "ClassCount",
    "ClassIndices",
    "Compaction",
    "Follows",
    "PerClass",
    "PerSlot",
    "Regrouping",
    "SlotIndices",
    "by_name",
]


@dataclass(frozen=True)
class Regrouping:
    """Class `gone` leaves, later ones move up; what it had goes to class `into`, or nowhere."""

    seen: int
    """Classes that there were before."""
    gone: int
    into: int | None = None

    @property
    def target(self) -> int | None:
        """The new index of the class that it is merged into."""
        return None if self.into is None else self.count(self.into)

    def count(self, classes: int) -> int:
        """How many of the first `classes` classes stay."""
        return classes - (self.gone < classes)

    def indices(self, labels: Tensor) -> Tensor:
        """New class indices; those of a class that goes nowhere are left out."""
        if self.into is None:
            labels = labels[labels != self.gone]
        else:
            labels = torch.where(labels == self.gone, self.into, labels)
        return labels - (labels > self.gone).long()

    def entries(self, values: Tensor, dim: int = 0) -> Tensor:
        """The entries of the classes that stay; there may be none yet for the last ones."""
        size = values.shape[dim]
        if self.gone >= size:
            return values
        kept = [index for index in range(size) if index != self.gone]
        return values.index_select(dim, torch.tensor(kept, dtype=torch.int64, device=values.device))

    def totals(self, values: Tensor, dim: int = 0) -> Tensor:
        """The same, with the entry that goes added to that of the class it is merged into."""
        kept, target = self.entries(values, dim), self.target
        if target is None or self.gone >= values.shape[dim]:
            return kept
        missing = max(target + 1 - kept.shape[dim], 0)
        shape = [missing if axis == dim else size for axis, size in enumerate(kept.shape)]
        kept = torch.cat([kept, kept.new_zeros(shape)], dim)
        own = kept.select(dim, target)
        own.copy_(own + values.select(dim, self.gone))  # of truth values, whether either is true
        return kept


@dataclass(frozen=True, eq=False)
class Compaction:
    """Some stored samples leave the memory; the others close the gaps in their order."""

    kept: Tensor
    """The slots of those that stay, ascending."""
    size: int
    """Slots that were filled before."""

    @classmethod
    def without(cls, slots: Tensor, size: int) -> Compaction:
        """All but these slots stay."""
        stays = torch.ones(size, dtype=torch.bool, device=slots.device)
        stays[slots] = False
        return cls(stays.nonzero().squeeze(1), size)

    def entries(self, values: Tensor) -> Tensor:
        """The entries of samples that stay; there may be none for the last slots."""
        kept = self.kept.to(values.device)
        return values[kept[kept < len(values)]]

    def indices(self, slots: Tensor) -> Tensor:
        """New slots of samples; those that left are left out."""
        new = torch.full((self.size,), -1, dtype=torch.int64, device=slots.device)
        new[self.kept.to(slots.device)] = torch.arange(len(self.kept), device=slots.device)
        found = new[slots]
        return found[found >= 0]


class Follows:
    """How a tensor follows; this one has nothing to do with classes or stored samples."""

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """The tensor after a class has gone."""
        return values

    def compacted(self, values: Tensor, slots: Compaction) -> Tensor:
        """The tensor after stored samples have gone."""
        return values


WHOLE = Follows()
"""It stays as it is."""


@dataclass(frozen=True)
class PerClass(Follows):
    """An entry for each class. Of merged classes `into` keeps its own, or (`added`) gets both."""

    dim: int = 0
    added: bool = False

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """The entries of the classes that stay."""
        follow = classes.totals if self.added else classes.entries
        found: Tensor = follow(values, self.dim)
        return found


class ClassIndices(Follows):
    """A set of class indices."""

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """The new indices, each once."""
        found: Tensor = torch.unique(classes.indices(values))
        return found


class ClassCount(Follows):
    """A number of classes: all whose index is below it are meant."""

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """How many of them there are still."""
        return torch.full_like(values, classes.count(int(values)))


class PerSlot(Follows):
    """An entry for each stored sample."""

    def compacted(self, values: Tensor, slots: Compaction) -> Tensor:
        """The entries of the samples that stay."""
        return slots.entries(values)


class SlotIndices(Follows):
    """Slots of the memory."""

    def compacted(self, values: Tensor, slots: Compaction) -> Tensor:
        """Where those samples are now."""
        return slots.indices(values)


def by_name(follows: Mapping[str, Follows]) -> Mapping[str, Follows]:
    """What tensors are, for `follows` and `stored` of a class: nobody changes it by mistake."""
    return MappingProxyType(dict(follows))


def __dir__() -> list[str]:
    """What is meant to be used, for completion in an editor."""
    return __all__
