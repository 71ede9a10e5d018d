"""Random loss of colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from evenstream.augment.operation import ColourPart

LUMA = (0.299, 0.587, 0.114)
"""How bright red, green and blue are to the eye (ITU-R BT.601)."""


def gray_levels(pixels: Tensor) -> Tensor:
    """The brightness of each pixel of images `(n, h, w, c)`, as `(n, h, w, 1)`."""
    if pixels.shape[-1] == 1:
        return pixels
    red, green, blue = torch.split(pixels, 1, dim=-1)
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


@dataclass(frozen=True)
class Gray(ColourPart):
    """Take the colour away, at random.

    Attributes:
        probability: How often.
    """

    meaning = "no colour, one time in five (grayP: with probability P)"

    probability: float = 0.2

    @classmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Read grayP."""
        probability = float(number or "0.2")
        if at is not None or not 0 <= probability <= 1:
            raise ValueError("grayP takes a probability of 0 to 1, as in gray0.2")
        return cls(probability)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(1, n)` booleans: whether to take the colour away."""
        return torch.rand(1, n, generator=generator) < self.probability

    def recolour(self, pixels: Tensor, drawn: Tensor) -> Tensor:
        """All channels of the chosen images become their brightness."""
        chosen = drawn[0].to(pixels.device)[:, None, None, None]
        return torch.where(chosen, gray_levels(pixels), pixels)
