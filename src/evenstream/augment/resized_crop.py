"""Random parts of images, stretched to one size."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from evenstream.augment.operation import GeometricPart
from evenstream.augment.view import View


@dataclass(frozen=True)
class ResizedCrop(GeometricPart):
    """Random box of the image, stretched bilinearly to the original or to a given size.

    The distribution is that of torchvision's RandomResizedCrop: the box has an area uniform in
    [min_area, 1] of the image's and a log-uniform aspect ratio; the first of ten tries that fits
    into the image counts, and if none does, it is the largest central box with an allowed aspect
    ratio.

    Attributes:
        min_area: Least area of the box, as a share of the image's.
        size: Height and width of the result; None for those of the image.
        aspect: Least and greatest ratio of width to height.
        tries: Number of tries.
    """

    meaning = (
        "random part of the image, of at least 0.08 of its area, stretched to full size "
        "(resized-cropMIN: of at least MIN; resized-crop@SIZE: to SIZE pixels, which is then also "
        "the size of the central crop that predictions see)"
    )

    min_area: float = 0.08
    size: int | None = None
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    tries: int = 10

    @classmethod
    def read(cls, number: str | None, at: str | None) -> Self:
        """Read resized-cropMIN@SIZE."""
        min_area = float(number or "0.08")
        if not 0 < min_area <= 1:
            raise ValueError(
                "resized-cropMIN takes a share of the area above 0 and up to 1, as in "
                "resized-crop0.08"
            )
        if at is not None and not re.fullmatch(r"[1-9][0-9]{0,3}", at):
            raise ValueError(
                "the size after '@' is a whole number of pixels, 1 to 9999, as in resized-crop@224"
            )
        return cls(min_area, None if at is None else int(at))

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw boxes `(4, n)`: top, left, height and width, in whole pixels."""

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, dtype=torch.float64)

        area = (self.min_area + (1 - self.min_area) * uniform(n, self.tries)) * (height * width)
        low, high = math.log(self.aspect[0]), math.log(self.aspect[1])
        ratio = torch.exp(low + (high - low) * uniform(n, self.tries))
        place = uniform(2, n)

        # A last column for the fallback, which always fits: `argmax` finds the first that does.
        last_h, last_w = self._fallback(height, width)
        hs = torch.cat([(area / ratio).sqrt().round(), area.new_full((n, 1), last_h)], dim=1)
        ws = torch.cat([(area * ratio).sqrt().round(), area.new_full((n, 1), last_w)], dim=1)
        fits = (hs >= 1) & (hs <= height) & (ws >= 1) & (ws <= width)
        first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)
        box_h, box_w = hs.gather(1, first)[:, 0], ws.gather(1, first)[:, 0]

        room = torch.stack([height - box_h, width - box_w])
        corner = torch.minimum((place * (room + 1)).floor(), room)
        corner = torch.where(first[:, 0] == self.tries, (room / 2).floor(), corner)
        return torch.stack([corner[0], corner[1], box_h, box_w]).long()

    def _fallback(self, height: int, width: int) -> tuple[int, int]:
        if width / height < self.aspect[0]:
            return round(width / self.aspect[0]), width
        if width / height > self.aspect[1]:
            return height, round(height * self.aspect[1])
        return height, width

    def trace(self, view: View, drawn: Tensor, height: int, width: int) -> None:
        """Stretch rows and columns."""
        top, left, box_h, box_w = drawn
        view.rows, view.row_weight = self._stretch(view.rows[0], top, box_h, height)
        view.cols, view.col_weight = self._stretch(view.cols[0], left, box_w, width)

    @staticmethod
    def _stretch(at: Tensor, start: Tensor, size: Tensor, full: int) -> tuple[Tensor, Tensor]:
        """Map coordinates `(n, length)` to two taps and the weight of the second."""
        start, size = start[:, None], size[:, None]
        where = (at.double() + 0.5) * (size / full) - 0.5  # pixel centres are at the halves
        where = torch.minimum(where.clamp(min=0), size - 1)
        low = where.floor()
        taps = torch.stack([low, torch.minimum(low + 1, size - 1)]).long() + start
        inside = (at >= 0) & (at < full)  # the others are in the border of a later crop: black
        return torch.where(inside, taps, -1), (where - low).float()
