"""The IDX format of MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
import struct

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import DataError

_UNSIGNED_BYTES = 0x08


def parse_idx(content: bytes | bytearray, source: str) -> NDArray[np.uint8]:
    """Read an IDX array of unsigned bytes: two zeros, a type, the dimensions, then the values.

    Args:
        content: The whole file, decompressed.
        source: The file's name in errors.

    Returns:
        A writable array of the dimensions in the file's header.
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(f"{source} is not an IDX file: it does not start with two zero bytes")
    kind, n_dims = content[2], content[3]
    if kind != _UNSIGNED_BYTES:
        raise DataError(f"{source}: IDX values of type 0x{kind:02x}; only unsigned bytes are read")
    start = 4 + 4 * n_dims
    if n_dims == 0 or len(content) < start:
        raise DataError(f"{source}: the IDX header is cut short; get the file again")
    shape = struct.unpack(f">{n_dims}I", content[4:start])
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise DataError(
            f"{source}: {len(content)} bytes, but its header announces {expected}; "
            "the file is cut short or damaged, get it again"
        )
    try:
        return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()
    except ValueError as error:  # dimensions that only a header without values can announce
        raise DataError(f"{source}: the IDX header makes no sense ({error})") from error


def parse_images_and_labels(
    images: bytes | bytearray, labels: bytes | bytearray, source: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a pair of IDX files as grey images (n, 1, height, width) and class indices."""
    x = parse_idx(images, f"{source} images")
    y = parse_idx(labels, f"{source} labels")
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise DataError(
            f"{source}: images of shape {x.shape} and labels of shape {y.shape} do not belong "
            "together; get the files again"
        )
    return x[:, np.newaxis], y.astype(np.int64)
