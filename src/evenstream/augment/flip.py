"""Random mirror images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from evenstream.augment.operation import GeometricPart
from evenstream.augment.view import View


@dataclass(frozen=True)
class Flip(GeometricPart):
    """Mirror left and right with probability one half."""

    meaning = "mirror left and right, every other time"

    @classmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Read flip."""
        if number is not None or at is not None:
            raise ValueError("flip takes no number")
        return cls()

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(1, n)` booleans: whether to mirror."""
        return torch.rand(1, n, generator=generator) < 0.5

    def trace(self, view: View, drawn: Tensor, height: int, width: int) -> None:
        """Mirror the columns."""
        view.cols = torch.where(drawn[0, :, None], width - 1 - view.cols, view.cols)
