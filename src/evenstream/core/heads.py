"""The head on top of the features: a row for each class, created when the class arrives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.bounds import check_options
from evenstream.core.randomness import make_generator
from evenstream.errors import InputError
from evenstream.numerals import LARGEST_FLOAT32
from evenstream.registry import Registry

__all__ = [
    "HEADS",
    "Cosine",
    "CosineHead",
    "Exits",
    "ExitsHead",
    "GrowingHead",
    "Head",
    "Linear",
    "register_head",
]


class GrowingHead(nn.Module):
    """A linear layer whose rows appear as classes arrive.

    Row c is drawn from `nn.Linear`'s default distribution with a generator keyed by (seed, c), so
    it does not matter when the row is created: a head allocated in advance has the same weights.
    """

    def __init__(self, in_features: int, seed: int, size: int = 0) -> None:
        super().__init__()
        self.in_features, self.seed = in_features, seed
        weight, bias = self._drawn(0)
        self.weight, self.bias = nn.Parameter(weight[:0]), nn.Parameter(bias[:0])
        self.grow(size)

    @property
    def out_features(self) -> int:
        """Rows allocated so far."""
        return self.weight.shape[0]

    def grow(self, size: int) -> None:
        """Append rows until there are `size`; old rows keep their values."""
        if size <= self.out_features:
            return
        drawn = [self._drawn(index) for index in range(self.out_features, size)]
        trained = self.weight.requires_grad  # a moving average's is not
        weight, bias = (torch.cat(rows).to(self.weight) for rows in zip(*drawn, strict=True))
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), weight]), trained)
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), bias]), trained)

    def drop(self, index: int, seen: int) -> Tensor:
        """Remove a class; returns which old rows are left.

        Later classes move up. Rows beyond the `seen` ones were allocated in advance: as many
        remain, drawn again.
        """
        before = self.out_features
        seen = min(seen, before)
        if index >= seen:
            return torch.arange(before)
        kept = torch.tensor([row for row in range(seen) if row != index], dtype=torch.int64)
        trained, rows = self.weight.requires_grad, kept.to(self.weight.device)
        self.weight = nn.Parameter(self.weight.detach()[rows], trained)
        self.bias = nn.Parameter(self.bias.detach()[rows], trained)
        if before > seen:
            self.grow(before)
        return kept

    def _drawn(self, index: int) -> tuple[Tensor, Tensor]:
        """Weight and bias of a class, as one row each."""
        generator = make_generator(self.seed, "head", index)
        row = draw_row(self.in_features, generator)
        return row[:-1].unsqueeze(0), row[-1:]

    def forward(self, features: Tensor, width: int | None = None) -> Tensor:
        """Logits of the first `width` classes (all rows by default)."""
        return self.logits(features, self.weight[:width], self.bias[:width])

    def logits(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Logits for the given weights and biases (methods try out modified ones)."""
        return F.linear(features, weight, bias)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(prefix + "weight")
        if saved is not None and saved.shape[0] != self.out_features:
            trained = self.weight.requires_grad  # a teacher's is not
            self.weight = nn.Parameter(self.weight.new_zeros(saved.shape), trained)
            shape = saved.shape[0], *self.bias.shape[1:]
            self.bias = nn.Parameter(self.bias.new_zeros(shape), trained)
        super()._load_from_state_dict(state_dict, prefix, *args)


def draw_row(in_features: int, generator: torch.Generator) -> Tensor:
    """Weights and a bias from `nn.Linear`'s default distribution."""
    bound = 1 / math.sqrt(in_features)
    return torch.empty(in_features + 1).uniform_(-bound, bound, generator=generator)


class ExitsHead(GrowingHead):
    """A linear layer on the features of each stage; the logits are the mean of their log-softmax.

    The features of all stages are concatenated. A class has one row across all stages, and a bias
    for each.
    """

    def __init__(self, sizes: Sequence[int], seed: int, size: int = 0) -> None:
        self.sizes = tuple(sizes)
        super().__init__(sum(sizes), seed, size)

    def _drawn(self, index: int) -> tuple[Tensor, Tensor]:
        generator = make_generator(self.seed, "head", index)
        rows = [draw_row(size, generator) for size in self.sizes]
        weight, bias = torch.cat([row[:-1] for row in rows]), torch.stack([row[-1] for row in rows])
        return weight.unsqueeze(0), bias.unsqueeze(0)

    def logits(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The mean over exits of their log-probabilities."""
        exits = range(len(self.sizes))
        found = [self._at(exit, features, weight, bias).log_softmax(1) for exit in exits]
        return torch.stack(found).mean(0)

    def exit_logits(self, exit: int, features: Tensor, width: int | None = None) -> Tensor:
        """The logits of one exit alone."""
        return self._at(exit, features, self.weight[:width], self.bias[:width])

    def _at(self, exit: int, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        first = sum(self.sizes[:exit])
        own = slice(first, first + self.sizes[exit])
        return F.linear(features[:, own], weight[:, own], bias[:, exit])


class CosineHead(GrowingHead):
    """Scaled cosine between features and class weights, whatever their lengths.

    The bias is unused. It exists so that code that grows, undoes or saves a head need not know
    which head it is.
    """

    def __init__(
        self, in_features: int, seed: int, size: int = 0, *, scale: float, learned: bool
    ) -> None:
        super().__init__(in_features, seed, size)
        self.scale = nn.Parameter(torch.tensor(float(scale)), requires_grad=learned)

    def logits(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The scale times the cosines."""
        return self.scale * cosines(features, weight)


def cosines(features: Tensor, weight: Tensor) -> Tensor:
    """cos(f, w_c) for each row and class; 0 for a vector of length zero."""
    return F.linear(F.normalize(features, dim=1), F.normalize(weight, dim=1))


@dataclass(frozen=True)
class Head:
    """The specification of a head; the typed fields of a subclass are its options."""

    name: ClassVar[str]
    with_exits: ClassVar[bool] = False
    """Whether it takes the concatenated features of all stages of the network."""

    def __post_init__(self) -> None:
        check_options(self)

    def build(self, in_features: int, seed: int, size: int) -> GrowingHead:
        """Create the head with `size` rows."""
        raise NotImplementedError


H = TypeVar("H", bound=type[Head])
HEADS: Registry[type[Head]] = Registry("head")


def register_head(name: str) -> Callable[[H], H]:
    """Register a head by name: METHOD:head=NAME; its options are written as `head_OPTION`."""
    return HEADS.register_class(name, Head)


@register_head("linear")
@dataclass(frozen=True)
class Linear(Head):
    """w·f + b."""

    def build(self, in_features: int, seed: int, size: int) -> GrowingHead:
        """A linear layer."""
        return GrowingHead(in_features, seed, size)


@register_head("cosine")
@dataclass(frozen=True)
class Cosine(Head):
    """A scaled cosine, so that no class wins by a longer weight."""

    scale: float = 10.0
    """Scale of the cosines (the inverse of a temperature)."""
    scale_learned: bool = False
    """Whether the scale is trained as well."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale <= LARGEST_FLOAT32:
            raise InputError(f"a head's scale must be a number above 0, got {self.scale!r}")

    def build(self, in_features: int, seed: int, size: int) -> GrowingHead:
        """A layer of cosines."""
        scale, learned = self.scale, self.scale_learned
        return CosineHead(in_features, seed, size, scale=scale, learned=learned)


@register_head("exits")
@dataclass(frozen=True)
class Exits(Head):
    """A linear layer after each stage of a ResNet; predicts by the mean of their log-softmax.

    Each exit is trained with the method's own loss on its own logits.
    """

    with_exits = True

    early: float = 1.0
    """Weight of the loss of each exit but the last, whose weight is 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.early < math.inf:
            raise InputError(f"early must be a number of 0 or more, got {self.early!r}")

    def build(self, in_features: int, seed: int, size: int) -> GrowingHead:
        """As if the network had one stage."""
        return self.build_exits((in_features,), seed, size)

    def build_exits(self, sizes: Sequence[int], seed: int, size: int) -> ExitsHead:
        """A layer for each size."""
        return ExitsHead(sizes, seed, size)

    def weigh(self, losses: Sequence[Tensor]) -> Tensor:
        """The loss of all exits, the last one being the deepest."""
        return losses[-1] + self.early * sum(losses[:-1], torch.zeros_like(losses[-1]))


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
