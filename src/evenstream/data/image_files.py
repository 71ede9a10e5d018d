"""An array of images whose pixels stay on disk until needed."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenstream.data.decoding import UnreadableImage, decode
from evenstream.data.samples import Read
from evenstream.errors import DataError, InputError

OnCorrupt = Literal["stop", "skip"]
"""What to do with an unreadable file: stop the run, or leave it out and report it."""

MOST_PIXELS = 4096
"""Largest height and width to which images can be resized: 50 MB each."""


def check_size(size: int) -> None:
    """Reject a height and width to which no image can be resized."""
    if not 1 <= size <= MOST_PIXELS:
        raise InputError(f"the size of images must be 1 to {MOST_PIXELS} pixels, not {size}")


class ImageFiles:
    """Image files that act like a uint8 array `(n, 3, size, size)`.

    Only the names are held in memory, as bytes in one array.

    Args:
        root: the folder with all files; nothing outside it is ever opened.
        names: the files, relative to it, with forward slashes.
        size: height and width to which every image is resized.
        on_corrupt: whether `read` stops at a file that cannot be read or leaves it out.
    """

    ndim = 4
    dtype = np.dtype(np.uint8)

    def __init__(
        self, root: Path, names: Iterable[str], size: int, on_corrupt: OnCorrupt = "stop"
    ) -> None:
        check_size(size)
        if on_corrupt not in get_args(OnCorrupt):
            raise InputError(f"on_corrupt is 'stop' or 'skip', not {on_corrupt!r}")
        self.root, self.size, self.on_corrupt = root.resolve(), size, on_corrupt
        self._names = _pack(self.root, names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of an array with all images."""
        return len(self), 3, self.size, self.size

    def __getitem__(self, rows: Any) -> NDArray[np.uint8]:
        """Decode rows, indexed as in NumPy; raises an error for an unreadable file."""
        chosen = np.arange(len(self))[rows]
        x = np.empty((chosen.size, *self.shape[1:]), dtype=np.uint8)
        for position, row in enumerate(np.ravel(chosen).tolist()):
            x[position] = _readable(self.load(row))
        return x.reshape(*chosen.shape, *self.shape[1:])

    def take(self, rows: NDArray[np.int64]) -> ImageFiles:
        """Some of the files, not decoded."""
        taken = copy.copy(self)
        taken._names = self._names[rows]
        return taken

    def path(self, row: int) -> Path:
        """The path of an image."""
        return self.root / os.fsdecode(self._names[row])

    def load(self, row: int) -> NDArray[np.uint8] | str:
        """Decode one image; if it is unreadable, its path and the reason."""
        path = self.path(row)
        try:
            if not Path(os.path.realpath(path)).is_relative_to(self.root):
                raise UnreadableImage(f"leads out of {self.root}")
            return decode(path, self.size)
        except UnreadableImage as error:
            return f"{path}: {error}"

    def collect(self, rows: NDArray[np.int64], loaded: Iterable[NDArray[np.uint8] | str]) -> Read:
        """Combine what `load` returned for some rows, according to `on_corrupt`."""
        x = np.empty((len(rows), *self.shape[1:]), dtype=np.uint8)
        good: list[int] = []
        skipped: list[str] = []
        for position, image in enumerate(loaded):
            if isinstance(image, str) and self.on_corrupt == "skip":
                skipped.append(image)
            else:
                x[len(good)] = _readable(image)
                good.append(position)
        return Read(rows[good], x[: len(good)], tuple(skipped))


def _readable(loaded: NDArray[np.uint8] | str) -> NDArray[np.uint8]:
    if isinstance(loaded, str):
        raise DataError(
            f"cannot read {loaded}; replace or remove the file (run, compare and learn can leave "
            "unreadable files out: `--corrupt skip`)"
        )
    return loaded


def _pack(root: Path, names: Iterable[str]) -> NDArray[np.bytes_]:
    """Names as bytes in one array, without a Python object for each of them at once."""
    encoded = (_checked(root, name) for name in names)
    chunks = iter(lambda: list(itertools.islice(encoded, 4096)), [])
    return np.concatenate([np.zeros(0, dtype="S1"), *(np.array(chunk) for chunk in chunks)])


def _checked(root: Path, name: str) -> bytes:
    if not name or "\0" in name or name.startswith("/") or ".." in name.split("/"):
        raise DataError(f"{name!r} is not the name of a file inside {root}")
    try:
        return os.fsencode(name)
    except UnicodeEncodeError as error:
        raise DataError(f"{name!r} cannot be the name of a file: {error}") from error
