"""Preprocessing and random augmentation of whole batches, in plain PyTorch.

A raw batch is usually uint8 pixels `(n, c, h, w)`, as stored in the replay memory. `Preprocess`
turns it into what a network sees: float32, in [0, 1], normalised per channel, channels last, and,
for training, moved about at random.

How it works. Each geometric part ("crop", "flip", "resized-crop") moves rows and columns
separately, so a part is a map on row numbers and a map on column numbers, with parameters drawn
for every sample. The maps are chained backwards, from the pixels of the result to those of the
source, and the pixels are then fetched once for the whole batch: no loop over samples, and no
arithmetic on pixels except where "resized-crop" has to blend neighbours.

Parameters are drawn on the CPU, one call for each parameter of a batch, and in the order of the
specification; the number of draws depends on the batch size and the specification alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from evenstream.errors import InputError, UnknownName

__all__ = ["PARTS", "Crop", "Flip", "Preprocess", "ResizedCrop", "parse"]

PARTS = {
    "none": "no augmentation",
    "crop": "random crop to the same size out of a black border of 4 pixels (cropN: of N)",
    "flip": "mirror left and right, every other time",
    "resized-crop": "random part of the image, of at least 0.08 of its area, stretched to full "
    "size (resized-cropMIN: of at least MIN; resized-crop@SIZE: to SIZE pixels, which is then also "
    "the size of the central crop that predictions see)",
}

# Large images are gathered a few at a time, so that what is needed on the way fits into the cache.
_PIXELS_AT_A_TIME = 1 << 18


@dataclass
class _View:
    """Where the pixels of the result come from.

    Attributes:
        rows: Source rows, `(taps, n, height)`. With two taps the pixel is a blend of both. Rows
            outside of the image are black.
        cols: Source columns, `(taps, n, width)`, likewise.
        row_weight: Share of the second row tap, `(n, height)`; None if there is one tap.
        col_weight: Share of the second column tap, `(n, width)`; None if there is one tap.
    """

    rows: Tensor
    cols: Tensor
    row_weight: Tensor | None = None
    col_weight: Tensor | None = None

    def of(self, samples: slice) -> _View:
        """The view of some of the samples."""
        row_weight, col_weight = (
            None if weight is None else weight[samples]
            for weight in (self.row_weight, self.col_weight)
        )
        return _View(self.rows[:, samples], self.cols[:, samples], row_weight, col_weight)


class _Part(Protocol):
    """A random geometric transformation.

    It draws `(k, n)` numbers, k for each sample, by the size of its input, and it maps the pixels
    of its result, by the size of that, to those of its input.
    """

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor: ...

    def trace(self, view: _View, drawn: Tensor, height: int, width: int) -> None: ...


@dataclass(frozen=True)
class Crop:
    """Random crop to the original size after padding with black on all sides.

    Attributes:
        padding: Pixels added on each side.
    """

    padding: int = 4

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw shifts `(2, n)`: rows down and columns right, each uniform in [-padding, padding].

        A shift is the crop's corner, counted from the corner of the image.
        """
        return torch.randint(-self.padding, self.padding + 1, (2, n), generator=generator)

    def trace(self, view: _View, drawn: Tensor, height: int, width: int) -> None:
        """Carry the view from the result of the crop to its input."""
        view.rows = view.rows + drawn[0, :, None]
        view.cols = view.cols + drawn[1, :, None]


@dataclass(frozen=True)
class Flip:
    """Mirror left and right with probability one half."""

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Tensor:
        """Draw `(1, n)` booleans: whether to mirror."""
        return torch.rand(1, n, generator=generator) < 0.5

    def trace(self, view: _View, drawn: Tensor, height: int, width: int) -> None:
        """Carry the view from the result of the flip to its input."""
        view.cols = torch.where(drawn[0, :, None], width - 1 - view.cols, view.cols)


@dataclass(frozen=True)
class ResizedCrop:
    """Random box of the image, stretched bilinearly to the original or to a given size.

    The law is that of torchvision's RandomResizedCrop: the box has an area uniform in
    [min_area, 1] of the image's and a log-uniform aspect ratio; the first of ten tries that fits
    into the image counts, and if none does, it is the largest central box of allowed aspect.

    Attributes:
        min_area: Least area of the box, as a share of the image's.
        size: Height and width of the result; None for those of the image.
        aspect: Least and greatest ratio of width to height.
        tries: Number of tries.
    """

    min_area: float = 0.08
    size: int | None = None
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    tries: int = 10

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

    def trace(self, view: _View, drawn: Tensor, height: int, width: int) -> None:
        """Carry the view from the result of the resized crop to its input."""
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


def parse(spec: str) -> tuple[_Part, ...]:
    """Read a specification such as "crop+flip", "crop2" or "resized-crop0.2@224+flip".

    Args:
        spec: "none", or parts joined by "+", applied from left to right, each at most once.

    Raises:
        UnknownName: There is no such part.
        InputError: A part's number is out of range, or parts do not go together.
    """
    texts = [text.strip() for text in spec.split("+")]
    parts: list[_Part] = []
    names: list[str] = []
    for text in texts:
        found = re.fullmatch(r"(.*?)(-?(?:\d+\.?\d*|\.\d+))?(?:@(.*))?", text)
        name, number, size = found.groups() if found else (text, None, None)
        if name not in PARTS:
            raise UnknownName("augmentation", text, PARTS)
        if name in names:
            raise InputError(f"augmentation {spec!r} has {name!r} more than once; once is enough")
        names.append(name)
        if size is not None and name != "resized-crop":
            raise InputError(f"augmentation {text!r}: only resized-crop takes a size after '@'")
        if name == "none":
            if len(texts) > 1 or number is not None:
                raise InputError(f"augmentation 'none' stands alone, not as in {spec!r}")
        elif name == "crop":
            padding = number or "4"
            if not padding.isdigit() or not 1 <= int(padding) <= 4096:
                raise InputError(
                    f"augmentation {text!r}: cropN takes a whole number of pixels of at least 1, "
                    "as in crop4"
                )
            parts.append(Crop(int(padding)))
        elif name == "flip":
            if number is not None:
                raise InputError(f"augmentation {text!r}: flip takes no number")
            parts.append(Flip())
        elif name == "resized-crop":
            min_area = float(number or "0.08")
            if not 0 < min_area <= 1:
                raise InputError(
                    f"augmentation {text!r}: resized-cropMIN takes a share of the area above 0 "
                    "and up to 1, as in resized-crop0.08"
                )
            if size is not None and not re.fullmatch(r"[1-9][0-9]{0,3}", size):
                raise InputError(
                    f"augmentation {text!r}: the size after '@' is a whole number of pixels, 1 to "
                    "9999, as in resized-crop@224"
                )
            parts.append(ResizedCrop(min_area, None if size is None else int(size)))
    return tuple(parts)


class Preprocess:
    """Turn raw batches into float32 network inputs, with or without random augmentation.

    uint8 is scaled to [0, 1]; floating point is taken as it is. Images `(n, c, h, w)` are then
    normalised per channel and come out in channels-last memory format; inputs of other shapes are
    only scaled. The raw batch is never changed, and the result never shares its memory.

    Args:
        augment: What `train` does at random: "none", or parts joined by "+" (see `PARTS`), such as
            "crop+flip" or "resized-crop0.2+flip". With "resized-crop@224" the result is of that
            size, and without augmentation it is the central crop of that size.
        mean: Mean of each channel, on the scaled values; None for zeros.
        std: Standard deviation of each channel, on the scaled values; None for ones.

    Raises:
        UnknownName: `augment` names something that does not exist.
        InputError: `augment`, `mean` or `std` cannot be used.
    """

    def __init__(
        self,
        augment: str = "none",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        self.augment = augment
        self.parts = parse(augment)
        sizes = (part.size for part in self.parts if isinstance(part, ResizedCrop))
        self.size = next(sizes, None)
        self.mean = None if mean is None else tuple(float(value) for value in mean)
        self.std = None if std is None else tuple(float(value) for value in std)
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values == ():
                raise InputError(f"{name} is empty; give one number for each channel, or None")
        if self.mean is not None and not all(map(math.isfinite, self.mean)):
            raise InputError(f"mean must be finite, not {self.mean}")
        if self.std is not None and not all(0 < value < math.inf for value in self.std):
            raise InputError(f"std must be positive and finite, not {self.std}")
        if self.mean is not None and self.std is not None and len(self.mean) != len(self.std):
            raise InputError(
                f"mean has {len(self.mean)} channels and std has {len(self.std)}; they must agree"
            )
        self._affines: dict[tuple[int, int, bool, torch.device], tuple[Tensor, Tensor]] = {}

    def __repr__(self) -> str:
        return f"Preprocess({self.augment!r}, mean={self.mean}, std={self.std})"

    def train(self, raw: Tensor, generator: Generator) -> Tensor:
        """Return the batch for training, newly augmented.

        Args:
            raw: Batch of raw inputs, on any device.
            generator: Source of randomness, on the CPU.

        Raises:
            InputError: The batch cannot be used, or is augmented and not of images.
        """
        if not self.parts:
            return self.plain(raw)
        if raw.dim() != 4:
            raise InputError(
                f"augmentation {self.augment!r} takes images (n, channels, height, width), not a "
                f"batch of shape {tuple(raw.shape)}; use 'none'"
            )
        raw = self._checked(raw)
        n, _, height, width = raw.shape
        drawn, sizes = [], []
        for part in self.parts:
            drawn.append(part.draw(n, height, width, generator))
            if isinstance(part, ResizedCrop) and part.size is not None:
                height = width = part.size
            sizes.append((height, width))
        view = _View(torch.arange(height).expand(1, n, -1), torch.arange(width).expand(1, n, -1))
        for part, values, size in reversed(list(zip(self.parts, drawn, sizes, strict=True))):
            part.trace(view, values, *size)
        bordered = any(isinstance(part, Crop) for part in self.parts)
        values = _empty_images(raw, height, width)
        few = max(_PIXELS_AT_A_TIME // (height * width), 1)
        for first in range(0, n, few):
            samples = slice(first, first + few)
            values[samples] = _fetch(raw[samples], view.of(samples), bordered)
        return self._finish(values, raw.dtype == torch.uint8)

    def plain(self, raw: Tensor) -> Tensor:
        """Return the batch without augmentation, as for evaluation.

        Raises:
            InputError: The batch cannot be used.
        """
        raw = self._checked(raw)
        if raw.dim() == 4:
            if self.size is not None:
                top, left = ((side - self.size) // 2 for side in raw.shape[2:])
                raw = raw[:, :, top : top + self.size, left : left + self.size]
            values = _empty_images(raw, *raw.shape[2:])
            values.copy_(raw.permute(0, 2, 3, 1).contiguous())
            return self._finish(values, raw.dtype == torch.uint8)
        values = raw.to(torch.float32, copy=True)
        return values.div_(255) if raw.dtype == torch.uint8 else values

    def _checked(self, raw: Tensor) -> Tensor:
        if raw.dtype != torch.uint8 and not raw.is_floating_point():
            raise InputError(f"inputs must be uint8 or floating point, not {raw.dtype}")
        if raw.dim() == 4 and 0 in raw.shape[1:]:
            raise InputError(f"the images have no pixels: the batch is of shape {tuple(raw.shape)}")
        if raw.dim() == 4 and self.size is not None and min(raw.shape[2:]) < self.size:
            height, width = raw.shape[2:]
            raise InputError(
                f"augmentation {self.augment!r} takes images of at least {self.size} pixels each "
                f"way, not {height}x{width}; give larger images or a smaller size after '@'"
            )
        channels = self.mean or self.std
        if raw.dim() == 4 and channels is not None and len(channels) != raw.shape[1]:
            raise InputError(
                f"mean and std are for {len(channels)} channels, but the images have {raw.shape[1]}"
            )
        return raw.detach()

    def _finish(self, values: Tensor, scale: bool) -> Tensor:
        """Scale and normalise contiguous `(n, h, w, c)` in place; returned as `(n, c, h, w)`."""
        n, height, width, channels = values.shape
        if self.mean is not None or self.std is not None:
            gain, shift = self._affine(width, channels, scale, values.device)
            lines = values.view(n, height, width * channels)
            torch.addcmul(shift, lines, gain, out=lines)
        elif scale:
            values.div_(255)
        return values.permute(0, 3, 1, 2)

    def _affine(
        self, width: int, channels: int, scale: bool, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Return the factor and the summand for each value of an image row `(width * channels)`.

        Whole rows instead of single pixels make for long, vectorised inner loops.
        """
        key = (width, channels, scale, device)
        if key not in self._affines:
            std = torch.tensor(self.std or (1.0,) * channels, dtype=torch.float64)
            mean = torch.tensor(self.mean or (0.0,) * channels, dtype=torch.float64)
            gain, shift = 1 / (std * (255 if scale else 1)), -mean / std
            self._affines[key] = (
                gain.float().repeat(width).to(device),
                shift.float().repeat(width).to(device),
            )
        return self._affines[key]


def _empty_images(raw: Tensor, height: int, width: int) -> Tensor:
    """Memory for images of a size, `(n, h, w, c)`.

    Not `raw.permute(...).to(...)`: with one channel that keeps strides that are not channels-last.
    """
    n, channels = raw.shape[:2]
    return torch.empty((n, height, width, channels), dtype=torch.float32, device=raw.device)


def _blend(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return `first + weight * (second - first)`, in their memory; faster than `torch.lerp`."""
    return torch.addcmul(first, second.sub_(first), weight, out=first)


def _fetch(raw: Tensor, view: _View, bordered: bool) -> Tensor:
    """Collect the pixels of a view from images `(n, c, h, w)` as a contiguous `(n, h, w, c)`.

    Args:
        raw: The images.
        view: Where each pixel comes from.
        bordered: Whether the view can reach outside of the images.
    """
    n, channels, height, width = raw.shape
    pixels = raw.permute(0, 2, 3, 1)
    rows, cols = view.rows, view.cols
    if bordered:  # one black pixel all around stands for everything outside
        canvas = raw.new_zeros(n, height + 2, width + 2, channels)
        canvas[:, 1:-1, 1:-1] = pixels
        pixels = canvas
        rows, cols = rows.clamp(-1, height) + 1, cols.clamp(-1, width) + 1
    pixels = pixels.contiguous()
    full_h, full_w = pixels.shape[1:3]
    height, width = rows.shape[-1], cols.shape[-1]  # from here on, those of the result
    lines = rows + full_h * torch.arange(n)[:, None]  # line numbers in the whole batch

    if view.row_weight is None or view.col_weight is None:
        source = (full_w * lines[0]).to(raw.device)[:, :, None] + cols[0].to(raw.device)[:, None]
        picked = pixels.flatten(0, 2).index_select(0, source.flatten())
        return picked.view(n, height, width, channels)

    # Columns before rows: this way the scattered reads are done on raw, small pixels.
    lines, cols = lines.to(raw.device), cols.to(raw.device)
    start = full_w * torch.arange(n * full_h, device=raw.device).view(n, full_h, 1)
    left, right = (
        pixels.flatten(0, 2)
        .index_select(0, (start + tap[:, None]).flatten())
        .view(n, full_h, width * channels)
        .float()
        for tap in cols
    )
    col_weight = view.col_weight.to(raw.device).repeat_interleave(channels, dim=1)
    narrowed = _blend(left, right, col_weight[:, None]).flatten(0, 1)
    upper, lower = (narrowed.index_select(0, tap.flatten()) for tap in lines)
    row_weight = view.row_weight.to(raw.device).view(n * height, 1)
    return _blend(upper, lower, row_weight).view(n, height, width, channels)
