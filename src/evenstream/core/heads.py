"""The head on top of the features: a row for each class, made when the class arrives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.core.randomness import make_generator
from evenstream.errors import InputError
from evenstream.registry import Registry

__all__ = ["HEADS", "Cosine", "CosineHead", "GrowingHead", "Head", "Linear", "register_head"]


class GrowingHead(nn.Module):
    """A linear layer whose rows appear as classes arrive.

    Row c is drawn with `nn.Linear`'s default law from a generator keyed by (seed, c), so it does
    not matter when the row was made: a head allocated in advance has the same weights.
    """

    def __init__(self, in_features: int, seed: int, size: int = 0) -> None:
        super().__init__()
        self.in_features, self.seed = in_features, seed
        self.weight = nn.Parameter(torch.zeros(0, in_features))
        self.bias = nn.Parameter(torch.zeros(0))
        self.grow(size)

    @property
    def out_features(self) -> int:
        """Rows allocated so far."""
        return self.weight.shape[0]

    def grow(self, size: int) -> None:
        """Append rows until there are `size`; old rows keep their values."""
        if size <= self.out_features:
            return
        bound = 1 / math.sqrt(self.in_features)
        new = torch.empty(size - self.out_features, self.in_features + 1)
        for row, index in zip(new, range(self.out_features, size), strict=True):
            row.uniform_(-bound, bound, generator=make_generator(self.seed, "head", index))
        new = new.to(self.weight)
        trained = self.weight.requires_grad  # an average's is not
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), new[:, :-1]]), trained)
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), new[:, -1]]), trained)

    def forward(self, features: Tensor, width: int | None = None) -> Tensor:
        """Logits of the first `width` classes (all rows by default)."""
        return self.logits(features, self.weight[:width], self.bias[:width])

    def logits(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Logits by any weights and biases (methods try out changed ones)."""
        return F.linear(features, weight, bias)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(prefix + "weight")
        if saved is not None and saved.shape[0] != self.out_features:
            trained = self.weight.requires_grad  # a teacher's is not
            self.weight = nn.Parameter(self.weight.new_zeros(saved.shape), trained)
            self.bias = nn.Parameter(self.bias.new_zeros(saved.shape[0]), trained)
        super()._load_from_state_dict(state_dict, prefix, *args)


class CosineHead(GrowingHead):
    """Scaled cosine between features and class weights: neither's length counts.

    The bias is not used. It is there so that whatever grows, undoes or saves a head need not ask
    which one it is.
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
    """What a head is made from; the typed fields of a subclass are its options."""

    name: ClassVar[str]

    def build(self, in_features: int, seed: int, size: int) -> GrowingHead:
        """The head itself, with `size` rows."""
        raise NotImplementedError


H = TypeVar("H", bound=type[Head])
HEADS: Registry[type[Head]] = Registry("head")


def register_head(name: str) -> Callable[[H], H]:
    """Make a head known by name: METHOD:head=NAME; its options are written as `head_OPTION`."""
    return HEADS.register(name)


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
    """The factor on the cosines: 1 over the temperature."""
    scale_learned: bool = False
    """Whether the factor is trained, too."""

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise InputError(f"a head's scale must be a number above 0, got {self.scale!r}")

    def build(self, in_features: int, seed: int, size: int) -> GrowingHead:
        """A layer of cosines."""
        scale, learned = self.scale, self.scale_learned
        return CosineHead(in_features, seed, size, scale=scale, learned=learned)
