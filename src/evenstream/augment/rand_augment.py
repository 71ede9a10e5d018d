"""RandAugment: a few changes drawn from fourteen, all of the same magnitude."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from evenstream.augment.jitter import brightness, contrast, saturation
from evenstream.augment.operation import ColourPart
from evenstream.numerals import read_number

STRONGEST = 30
"""The highest magnitude."""
FARTHEST = 150 / 331
"""The largest translation, as a share of the image's side."""


@dataclass(frozen=True)
class RandAugment(ColourPart):
    """Apply some of fourteen changes to each image, drawn with replacement.

    The changes and their magnitudes are torchvision's (Cubuk et al., 2020): identity, shear,
    translation and rotation with a random sign, to the nearest pixel and black outside; brightness,
    colour, contrast and sharpness up or down; posterize, solarize, autocontrast and equalize, which
    work on 256 levels. It comes last, since it changes colours, though it moves pixels as well.

    Attributes:
        changes: Number of changes made to an image, one after another.
        magnitude: How strong they are, 0 to 30.
    """

    meaning = (
        "two of fourteen changes (shears, turns, colours, ...) of magnitude 9 "
        "(randaugmentN@M: N of them, of magnitude M of 0 to 30)"
    )

    changes: int = 2
    magnitude: float = 9.0

    @classmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Read randaugmentN@M."""
        try:
            changes = read_number(number or "2", int)
            magnitude = read_number("9" if at is None else at, float)
        except ValueError:
            changes, magnitude = 0, -1.0
        if not (1 <= changes <= len(CHANGES) and 0 <= magnitude <= STRONGEST):
            raise ValueError(
                f"randaugmentN@M takes a number of changes of 1 to {len(CHANGES)} and a magnitude "
                f"of 0 to {STRONGEST}, as in randaugment1@14"
            )
        return cls(changes, magnitude)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(2 * changes, n)`: which changes, and their signs."""
        chosen = torch.randint(len(CHANGES), (self.changes, n), generator=generator)
        signs = torch.randint(2, (self.changes, n), generator=generator)
        return torch.cat([chosen, 2 * signs - 1])

    def recolour(self, pixels: Tensor, drawn: Tensor) -> Tensor:
        """One change after another; each is applied to all of its images at once."""
        strength = self.magnitude / STRONGEST
        for chosen, signs in zip(drawn[: self.changes], drawn[self.changes :], strict=True):
            for number in chosen.unique().tolist():
                images = (chosen == number).nonzero()[:, 0]
                sign = signs[images].to(pixels)[:, None, None, None]
                images = images.to(pixels.device)
                changed = CHANGES[number](pixels[images], strength, sign)
                pixels[images] = changed.clamp_(0, 1)
        return pixels


# ---- moves ---------------------------------------------------------------------------------------


def _moved(pixels: Tensor, matrices: Tensor) -> Tensor:
    """Fetch each pixel from where an affine map `(n, 2, 3)` of pixel positions says.

    Positions are counted from the upper left corner of the image, x before y.
    """
    _, height, width, _ = pixels.shape
    y, x = (torch.arange(side, device=pixels.device) + 0.5 for side in (height, width))
    across, down = torch.meshgrid(x, y, indexing="xy")
    places = torch.stack([across, down, torch.ones_like(across)], -1)
    sides = torch.tensor([width, height], device=pixels.device)
    grid = 2 * torch.einsum("nij,hwj->nhwi", matrices, places) / sides - 1
    moved = F.grid_sample(
        pixels.permute(0, 3, 1, 2), grid, "nearest", padding_mode="zeros", align_corners=False
    )
    return moved.permute(0, 2, 3, 1)


def _matrices(sign: Tensor, rows: list[list[Tensor | float]]) -> Tensor:
    """`(n, 2, 3)` from entries that are numbers or have one value per image."""
    flat = sign.flatten()
    entries = [torch.as_tensor(e).to(flat).expand_as(flat) for row in rows for e in row]
    return torch.stack(entries, 1).view(-1, 2, 3)


def _shear_x(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    by = 0.3 * strength * sign.flatten()
    return _moved(pixels, _matrices(sign, [[1.0, by, 0.0], [0.0, 1.0, 0.0]]))


def _shear_y(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    by = 0.3 * strength * sign.flatten()
    return _moved(pixels, _matrices(sign, [[1.0, 0.0, 0.0], [by, 1.0, 0.0]]))


def _translate_x(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    by = int(FARTHEST * pixels.shape[2] * strength) * sign.flatten()
    return _moved(pixels, _matrices(sign, [[1.0, 0.0, -by], [0.0, 1.0, 0.0]]))


def _translate_y(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    by = int(FARTHEST * pixels.shape[1] * strength) * sign.flatten()
    return _moved(pixels, _matrices(sign, [[1.0, 0.0, 0.0], [0.0, 1.0, -by]]))


def _rotate(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    """About the centre, by up to 30 degrees."""
    angle = math.radians(30) * strength * sign.flatten()
    cos, sin = angle.cos(), angle.sin()
    x, y = pixels.shape[2] / 2, pixels.shape[1] / 2
    rows: list[list[Tensor | float]] = [
        [cos, sin, x - x * cos - y * sin],
        [-sin, cos, y + x * sin - y * cos],
    ]
    return _moved(pixels, _matrices(sign, rows))


# ---- colours -------------------------------------------------------------------------------------


def _enhance(change: Callable[[Tensor, Tensor], Tensor]) -> Change:
    """A change by a factor, where 1 leaves the image unchanged."""
    return lambda pixels, strength, sign: change(pixels, 1 + 0.9 * strength * sign)


def _sharpness(pixels: Tensor, factor: Tensor) -> Tensor:
    """Away from the smoothed image, or towards it; the border stays."""
    if min(pixels.shape[1:3]) < 3:
        return pixels
    channels = pixels.shape[-1]
    kernel = torch.ones(channels, 1, 3, 3, device=pixels.device)
    kernel[:, :, 1, 1] = 5
    smooth = pixels.clone()
    inner = F.conv2d(pixels.permute(0, 3, 1, 2), kernel / 13, groups=channels)
    smooth[:, 1:-1, 1:-1] = inner.permute(0, 2, 3, 1)
    return torch.lerp(smooth, pixels, factor)


def _posterize(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    """Fewer levels: up to four bits less."""
    step = 2 ** round(4 * strength)
    coarse: Tensor = _levels(pixels).div(step, rounding_mode="floor") * step
    return coarse / 255


def _solarize(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    """The bright pixels inverted."""
    return torch.where(_levels(pixels) >= 255 * (1 - strength), 1 - pixels, pixels)


def _autocontrast(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    """Each channel stretched to all of 0..1."""
    low, high = (f(pixels, (1, 2), keepdim=True) for f in (torch.amin, torch.amax))
    span = high - low
    return torch.where(span > 0, (pixels - low) / span.where(span > 0, 1.0), pixels)


def _equalize(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    """Each channel with its levels spread evenly, as in PIL."""
    n, height, width, channels = pixels.shape
    levels = _levels(pixels).long().permute(0, 3, 1, 2).reshape(n * channels, -1)
    counts = torch.zeros(n * channels, 256, dtype=torch.long, device=pixels.device)
    counts.scatter_add_(1, levels, torch.ones_like(levels))
    highest = counts.gather(1, levels.amax(1, keepdim=True))
    step = (height * width - highest).div(255, rounding_mode="floor")
    below = counts.cumsum(1) - counts
    table = (below + step // 2).div(step.clamp_min(1), rounding_mode="floor").clamp_max(255)
    table = torch.where(step > 0, table, torch.arange(256, device=pixels.device))
    found = table.gather(1, levels).view(n, channels, height, width).permute(0, 2, 3, 1)
    return found / 255


def _levels(pixels: Tensor) -> Tensor:
    """Values in 0..1 as 256 levels."""
    return (pixels * 255).round()


def _identity(pixels: Tensor, strength: float, sign: Tensor) -> Tensor:
    return pixels


Change = Callable[[Tensor, float, Tensor], Tensor]
"""A change of images `(n, h, w, c)` in 0..1, with a strength of 0 to 1 and a sign per image."""

CHANGES: tuple[Change, ...] = (
    _identity,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
    _rotate,
    _enhance(brightness),
    _enhance(saturation),
    _enhance(contrast),
    _enhance(_sharpness),
    _posterize,
    _solarize,
    _autocontrast,
    _equalize,
)
