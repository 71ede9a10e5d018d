"""Preprocessing for outputs of a frozen network, which need no further processing."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from evenstream.augment.preprocess import Preprocess


class Latents(Preprocess):
    """Features or feature maps; if there are several views of each row, one is chosen.

    Args:
        views: whether a row holds several views `(n, views, ...)`, the un-augmented one first.
    """

    def __init__(self, views: bool = False) -> None:
        super().__init__()
        self.views = views

    def train(self, raw: Tensor, generator: Generator) -> Tensor:
        """One view of each row, drawn at random."""
        if not self.views:
            return self.plain(raw)
        chosen = torch.randint(raw.shape[1], (len(raw),), generator=generator).to(raw.device)
        return super().plain(raw[torch.arange(len(raw), device=raw.device), chosen])

    def plain(self, raw: Tensor) -> Tensor:
        """The un-augmented view of each row."""
        return super().plain(raw[:, 0] if self.views else raw)
