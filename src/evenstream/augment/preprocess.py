"""Turns raw batches into network inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from evenstream.augment.crop import Crop
from evenstream.augment.operation import ColourPart, GeometricPart
from evenstream.augment.resized_crop import ResizedCrop
from evenstream.augment.specification import parse
from evenstream.augment.view import View, fetch
from evenstream.errors import InputError, calling, shown

# Large images are gathered a few at a time, so that intermediate results fit into the cache.
PIXELS_AT_A_TIME = 1 << 18
LARGEST = torch.finfo(torch.float32).max


Augmentation = Callable[[Tensor], Tensor]
"""A function from a batch of float images in 0..1 to another of the same length."""


class Preprocess:
    """Turn raw batches into float32 network inputs, with or without random augmentation.

    uint8 is scaled to [0, 1]; floating point is used unchanged. Images `(n, c, h, w)` are then
    normalised per channel and come out in channels-last memory format; inputs of other shapes are
    only scaled, and rejected if there is a `mean` or `std`. The raw batch is never modified, and
    the result never shares its memory.

    Args:
        augment: What `train` does at random: "none", or parts joined by "+" (see `PARTS`), such as
            "crop+flip" or "resized-crop0.2+flip+jitter". With "resized-crop@224" the result is of
            that size, and without augmentation it is the central crop of that size. Or a
            function of a batch of float images in 0..1 (before `mean` and `std`) that returns such
            a batch; PyTorch's generator is then the learner's own.
        mean: Mean of each channel, on the scaled values; None for zeros.
        std: Standard deviation of each channel, on the scaled values; None for ones.

    Raises:
        UnknownName: `augment` names something that does not exist.
        InputError: `augment`, `mean` or `std` cannot be used.
    """

    def __init__(
        self,
        augment: str | Augmentation = "none",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        self.function = None if isinstance(augment, str) else _checked_function(augment)
        self.augment = augment if isinstance(augment, str) else "none"
        self.parts = parse(self.augment)
        sizes = (part.size for part in self.parts if isinstance(part, ResizedCrop))
        self.size = next(sizes, None)
        self.mean, self.std = _numbers("mean", mean), _numbers("std", std)
        if self.mean is not None and not all(abs(value) < LARGEST for value in self.mean):
            raise InputError(f"mean must be finite in float32, not {self.mean}")
        if self.std is not None and not all(1 / LARGEST < value < LARGEST for value in self.std):
            raise InputError(f"std must be positive and finite in float32, not {self.std}")
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
        if self.function is not None:
            return self._by_function(raw, self.function)
        if not self.parts:
            return self.plain(raw)
        if raw.dim() != 4:
            raise InputError(
                f"augmentation {self.augment!r} takes images (n, channels, height, width), not a "
                f"batch of shape {tuple(raw.shape)}; use 'none'"
            )
        raw = self._checked(raw)
        if any(isinstance(part, ColourPart) for part in self.parts):
            self._check_colours(raw)
        n, _, height, width = raw.shape
        moves: list[tuple[GeometricPart, Tensor, int, int]] = []
        recolours: list[tuple[ColourPart, Tensor]] = []
        for part in self.parts:
            drawn = part.draw(n, height, width, generator)
            if isinstance(part, ColourPart):
                recolours.append((part, drawn))
                continue
            if isinstance(part, ResizedCrop) and part.size is not None:
                height = width = part.size
            moves.append((part, drawn, height, width))
        view = View(torch.arange(height).expand(1, n, -1), torch.arange(width).expand(1, n, -1))
        for move, drawn, *size in reversed(moves):
            move.trace(view, drawn, *size)
        bordered = any(isinstance(part, Crop) for part in self.parts)
        scale = raw.dtype == torch.uint8
        values = _empty_images(raw, height, width)
        few = max(PIXELS_AT_A_TIME // (height * width), 1)
        for first in range(0, n, few):
            samples = slice(first, first + few)
            pixels = fetch(raw[samples], view.of(samples), bordered)
            if recolours:
                pixels = pixels.float().div_(255 if scale else 1)
            for change, drawn in recolours:
                pixels = change.recolour(pixels, drawn[:, samples])
            values[samples] = pixels
        return self._finish(values, scale and not recolours)

    def _by_function(self, raw: Tensor, function: Augmentation) -> Tensor:
        raw = self._checked(raw)
        images = raw.float() / 255 if raw.dtype == torch.uint8 else raw.to(torch.float32, copy=True)
        with torch.no_grad(), calling("the function given as augment"):
            made = function(images)
        as_given = isinstance(made, Tensor) and made.ndim == raw.ndim  # images may change in size
        if not (as_given and made.shape[:2] == raw.shape[:2]):
            what = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise InputError(
                f"augment must return a batch of as many inputs of {raw.ndim} dimensions, with as "
                f"many channels, as it is given: {tuple(raw.shape)}; it returned {what}"
            )
        if not made.is_floating_point() or made.device != raw.device:
            raise InputError(
                "augment must return floating point of 0..1 on the device that the batch is on "
                f"({raw.device}), it returned {made.dtype} on {made.device}"
            )
        if raw.dim() != 4:
            return made.float()
        values = _empty_images(made, *made.shape[2:])
        values.copy_(made.permute(0, 2, 3, 1))
        return self._finish(values, False)

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
        if raw.dim() != 4 and channels is not None:
            raise InputError(
                "mean and std are for images (n, channels, height, width), not for a batch of "
                f"shape {tuple(raw.shape)}; normalise tables yourself, or use the network mlp-norm"
            )
        if channels is not None and len(channels) != raw.shape[1]:
            raise InputError(
                f"mean and std are for {len(channels)} channels, but the images have {raw.shape[1]}"
            )
        return raw.detach()

    def _check_colours(self, raw: Tensor) -> None:
        if raw.shape[1] not in (1, 3):
            raise InputError(
                f"augmentation {self.augment!r} changes colours, so it takes images of 1 or 3 "
                f"channels, not of {raw.shape[1]}"
            )
        if raw.is_floating_point() and not bool(((raw >= 0) & (raw <= 1)).all()):
            raise InputError(
                f"augmentation {self.augment!r} changes colours, so it takes pixels of 0 to 1, or "
                "uint8; scale the images, or leave these parts out"
            )

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


def _numbers(name: str, values: Any) -> tuple[float, ...] | None:
    """One number for each channel, or None."""
    if values is None:
        return None
    try:
        if isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray)):
            numbers = tuple(map(float, values))
            if numbers:
                return numbers
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise InputError(
        f"{name} must be a sequence with a number for each channel, or None, not {shown(values)}"
    )


def _empty_images(raw: Tensor, height: int, width: int) -> Tensor:
    """Memory for images of a size, `(n, h, w, c)`.

    Not `raw.permute(...).to(...)`: with one channel that keeps strides that are not channels-last.
    """
    n, channels = raw.shape[:2]
    return torch.empty((n, height, width, channels), dtype=torch.float32, device=raw.device)


def _checked_function(augment: Any) -> Augmentation:
    if callable(augment):
        function: Augmentation = augment
        return function
    raise InputError(
        "augment must be a text such as 'crop+flip', or a function of a batch, got "
        f"{shown(augment)}"
    )
