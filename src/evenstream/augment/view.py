"""Where the pixels of a moved image come from, and how they are fetched: once for a whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class View:
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

    def of(self, samples: slice) -> View:
        """The view of some of the samples."""
        row_weight, col_weight = (
            None if weight is None else weight[samples]
            for weight in (self.row_weight, self.col_weight)
        )
        return View(self.rows[:, samples], self.cols[:, samples], row_weight, col_weight)


def _blend(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return `first + weight * (second - first)`, in their memory; faster than `torch.lerp`."""
    return torch.addcmul(first, second.sub_(first), weight, out=first)


def fetch(raw: Tensor, view: View, bordered: bool) -> Tensor:
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
