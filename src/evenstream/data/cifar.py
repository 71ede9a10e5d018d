"""The binary records of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import DataError

_IMAGE_SHAPE = (3, 32, 32)
_IMAGE_BYTES = 3 * 32 * 32


def parse_cifar(
    content: bytes | bytearray, n_labels: int, source: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read records of `n_labels` label bytes and one image, red, green and blue planes in turn.

    Args:
        content: The whole file.
        n_labels: 1 for CIFAR-10; 2 for CIFAR-100, the coarse label and then the fine one.
        source: The file's name in errors.

    Returns:
        Images (n, 3, 32, 32) and labels (n_labels, n).
    """
    record = n_labels + _IMAGE_BYTES
    if not content or len(content) % record:
        raise DataError(
            f"{source}: {len(content)} bytes is not a whole number of {record}-byte records; "
            "the file is cut short or damaged, get it again"
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    images = rows[:, n_labels:].copy().reshape(-1, *_IMAGE_SHAPE)
    return images, np.ascontiguousarray(rows[:, :n_labels].T, dtype=np.int64)


def parse_names(content: bytes | bytearray, source: str) -> list[str]:
    """Read class names, one per line, ignoring blank lines."""
    try:
        text = bytes(content).decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not a list of class names; get it again") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
