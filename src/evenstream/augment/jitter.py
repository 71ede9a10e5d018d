"""Random brightness, contrast, saturation and hue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from evenstream.augment.gray import gray_levels
from evenstream.augment.operation import ColourPart
from evenstream.numerals import read_number


@dataclass(frozen=True)
class Jitter(ColourPart):
    """Change brightness, contrast, saturation and hue, in random order, each by a random amount.

    The distribution is that of torchvision's ColorJitter with `(strength, strength, strength,
    strength/4)`, applied with a probability; amounts, order and whether to do it at all are drawn
    for each image. An image of one channel has neither saturation nor hue.

    Attributes:
        strength: Factors of brightness, contrast and saturation lie within 1 ± strength; the hue
            rotates by up to strength/4 of the circle either way.
        probability: How often an image is changed.
    """

    meaning = (
        "brightness, contrast and saturation changed by up to 0.4, the hue by a quarter of that, "
        "four times in five (jitterS: by up to S; jitter@P: with probability P)"
    )

    strength: float = 0.4
    probability: float = 0.8

    @classmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Read jitterS@P."""
        try:
            strength = float(number or "0.4")
            probability = read_number("0.8" if at is None else at, float)
        except ValueError:
            strength = probability = -1.0
        if not (0 <= strength <= 1 and 0 <= probability <= 1):
            raise ValueError(
                "jitterS@P takes a strength and a probability of 0 to 1, as in jitter0.4@0.8"
            )
        return cls(strength, probability)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(8, n)`: the turn (0 to 3) and the amount of each of the four changes.

        An image that stays unchanged has turns of -1.
        """
        changed = torch.rand(n, generator=generator) < self.probability
        turns = torch.rand(4, n, generator=generator).argsort(0)
        amounts = self.strength * (2 * torch.rand(4, n, generator=generator) - 1)
        amounts[:3] += 1
        amounts[3] /= 4
        return torch.cat([turns.where(changed, -1), amounts])

    def recolour(self, pixels: Tensor, drawn: Tensor) -> Tensor:
        """Four turns; in each, every change is made to the images whose turn it is for that."""
        turns, amounts = drawn[:4], drawn[4:].to(pixels.device)
        changes = (brightness, contrast, saturation, _hue)[: 2 if pixels.shape[-1] == 1 else 4]
        for turn in range(4):
            for change, own_turns, amount in zip(changes, turns, amounts, strict=False):
                images = (own_turns == turn).nonzero()[:, 0].to(pixels.device)
                if len(images):
                    changed = change(pixels[images], amount[images, None, None, None])
                    pixels[images] = changed.clamp_(0, 1)
        return pixels


def brightness(pixels: Tensor, factor: Tensor) -> Tensor:
    """Away from black, or towards it."""
    return pixels * factor


def contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    """Away from the image's mean brightness, or towards it."""
    mean = gray_levels(pixels).mean(dim=(1, 2, 3), keepdim=True)
    return torch.lerp(mean, pixels, factor)


def saturation(pixels: Tensor, factor: Tensor) -> Tensor:
    """Away from the pixel's own brightness, or towards it."""
    return torch.lerp(gray_levels(pixels).expand_as(pixels), pixels, factor)


def _hue(pixels: Tensor, turn: Tensor) -> Tensor:
    """Rotate the hue by a share of the circle, keeping value and chroma of HSV.

    A hue of h sixths of the circle gives the channel with offset o (red 5, green 3, blue 1) the
    value `v - chroma · clamp(min(k, 4 - k), 0, 1)`, with `k = (o + h) mod 6`.
    """
    red, green, blue = torch.split(pixels, 1, dim=-1)
    value = pixels.amax(-1, keepdim=True)
    chroma = value - pixels.amin(-1, keepdim=True)
    some = chroma.where(chroma > 0, 1.0)
    sixths = torch.where(
        value == red,
        (green - blue) / some,
        torch.where(value == green, 2 + (blue - red) / some, 4 + (red - green) / some),
    )
    offsets = torch.tensor([5.0, 3.0, 1.0], device=pixels.device)
    k = (offsets + sixths + 6 * turn) % 6
    return value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)
