"""Random crop out of a black border."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from evenstream.augment.operation import GeometricPart
from evenstream.augment.view import View


@dataclass(frozen=True)
class Crop(GeometricPart):
    """Random crop to the original size after padding with black on all sides.

    Attributes:
        padding: Pixels added on each side.
    """

    meaning = "random crop to the same size out of a black border of 4 pixels (cropN: of N)"

    padding: int = 4

    @classmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Read cropN."""
        padding = number or "4"
        if at is not None or not padding.isdigit() or not 1 <= int(padding) <= 4096:
            raise ValueError("cropN takes a whole number of pixels of at least 1, as in crop4")
        return cls(int(padding))

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw shifts `(2, n)`: rows down and columns right, each uniform in [-padding, padding].

        A shift is the crop's corner, counted from the corner of the image.
        """
        return torch.randint(-self.padding, self.padding + 1, (2, n), generator=generator)

    def trace(self, view: View, drawn: Tensor, height: int, width: int) -> None:
        """Add the shifts."""
        view.rows = view.rows + drawn[0, :, None]
        view.cols = view.cols + drawn[1, :, None]
