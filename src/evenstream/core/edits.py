"""How state changes when a class is merged or removed, or stored samples are forgotten.

Every piece of a learner follows one protocol (`regroup` and `compact` of `Stateful`). Methods,
rules and teachers only declare what their tensors hold: an entry per class, class indices, an entry
per stored sample, or none of these.
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
    """Class `gone` is removed, later ones move up; its contents go to class `into` or nowhere."""

    seen: int
    """Number of classes before."""
    gone: int
    into: int | None = None

    @property
    def target(self) -> int | None:
        """The new index of the class it is merged into."""
        return None if self.into is None else self.count(self.into)

    def count(self, classes: int) -> int:
        """Number of the first `classes` classes that stay."""
        return classes - (self.gone < classes)

    def indices(self, labels: Tensor) -> Tensor:
        """New class indices; those of a removed class are left out."""
        if self.into is None:
            labels = labels[labels != self.gone]
        else:
            labels = torch.where(labels == self.gone, self.into, labels)
        return labels - (labels > self.gone).long()

    def entries(self, values: Tensor, dim: int = 0) -> Tensor:
        """The entries of the remaining classes; the last ones may not have any yet."""
        size = values.shape[dim]
        if self.gone >= size:
            return values
        kept = [index for index in range(size) if index != self.gone]
        return values.index_select(dim, torch.tensor(kept, dtype=torch.int64, device=values.device))

    def totals(self, values: Tensor, dim: int = 0) -> Tensor:
        """The same, with the removed entry added to that of the class it is merged into."""
        kept, target = self.entries(values, dim), self.target
        if target is None or self.gone >= values.shape[dim]:
            return kept
        missing = max(target + 1 - kept.shape[dim], 0)
        shape = [missing if axis == dim else size for axis, size in enumerate(kept.shape)]
        kept = torch.cat([kept, kept.new_zeros(shape)], dim)
        own = kept.select(dim, target)
        own.copy_(own + values.select(dim, self.gone))  # for booleans, whether either is true
        return kept


@dataclass(frozen=True, eq=False)
class Compaction:
    """Some stored samples leave the memory; the others close the gaps, keeping their order."""

    kept: Tensor
    """Slots of the remaining samples, ascending."""
    size: int
    """Number of slots filled before."""

    @classmethod
    def without(cls, slots: Tensor, size: int) -> Compaction:
        """Keep all but these slots."""
        stays = torch.ones(size, dtype=torch.bool, device=slots.device)
        stays[slots] = False
        return cls(stays.nonzero().squeeze(1), size)

    def entries(self, values: Tensor) -> Tensor:
        """The entries of the remaining samples; the last slots may not have any."""
        kept = self.kept.to(values.device)
        return values[kept[kept < len(values)]]

    def indices(self, slots: Tensor) -> Tensor:
        """New slots of samples; removed ones are left out."""
        new = torch.full((self.size,), -1, dtype=torch.int64, device=slots.device)
        new[self.kept.to(slots.device)] = torch.arange(len(self.kept), device=slots.device)
        found = new[slots]
        return found[found >= 0]


class Follows:
    """How a tensor follows; this one does not depend on classes or stored samples."""

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """The tensor after a class was removed."""
        return values

    def compacted(self, values: Tensor, slots: Compaction) -> Tensor:
        """The tensor after stored samples were removed."""
        return values


WHOLE = Follows()
"""It stays unchanged."""


@dataclass(frozen=True)
class PerClass(Follows):
    """An entry per class. In a merge, `into` keeps its own or (`added`) gets the sum."""

    dim: int = 0
    added: bool = False

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """The entries of the remaining classes."""
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
    """A number of classes, meaning all with a lower index."""

    def regrouped(self, values: Tensor, classes: Regrouping) -> Tensor:
        """How many of them remain."""
        return torch.full_like(values, classes.count(int(values)))


class PerSlot(Follows):
    """An entry for each stored sample."""

    def compacted(self, values: Tensor, slots: Compaction) -> Tensor:
        """The entries of the remaining samples."""
        return slots.entries(values)


class SlotIndices(Follows):
    """Slots of the memory."""

    def compacted(self, values: Tensor, slots: Compaction) -> Tensor:
        """Their new slots."""
        return slots.indices(values)


def by_name(follows: Mapping[str, Follows]) -> Mapping[str, Follows]:
    """Tensor declarations, for `follows` and `stored` of a class; read-only."""
    return MappingProxyType(dict(follows))


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
