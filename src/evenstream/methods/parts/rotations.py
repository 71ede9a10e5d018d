"""OCM's local and global rotations: sixteen versions of an image, each its own class."""

from __future__ import annotations

import torch
from torch import Tensor

from evenstream.errors import InputError

COPIES = 16


def rotations(images: Tensor) -> Tensor:
    """All images `(n, c, s, s)` in sixteen versions: `(16n, c, s, s)`, version by version.

    Locally, none, the left, both or the right half of the image is rotated by 180°; globally, each
    of these four is rotated by 0°, 180°, 90° and 270°.
    """
    height, width = images.shape[2:]
    if height != width:
        raise InputError(f"rotations take square images, not of {height}x{width} pixels")
    left, right = images[..., : width // 2], images[..., width // 2 :]
    turned_left, turned_right = (half.flip(2, 3) for half in (left, right))
    halves = (
        (left, right),
        (turned_left, right),
        (turned_left, turned_right),
        (left, turned_right),
    )
    locally = torch.cat([torch.cat(pair, 3) for pair in halves])
    return torch.cat([locally.rot90(turns, (2, 3)) for turns in (0, 2, 1, 3)])


def pseudo_labels(y: Tensor, n_classes: int) -> Tensor:
    """A label for each copy of each row, in the order of `rotations`: y + copy · n_classes."""
    copies = torch.arange(COPIES, device=y.device)
    return (copies[:, None] * n_classes + y).flatten()
