"""Data sets from `.npz` files, read without ever unpickling."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.data.arrays import from_arrays
from evenstream.data.dataset import Dataset
from evenstream.errors import DataError

_SPLIT_KEYS = ("x_train", "y_train", "x_test", "y_test")
_WHOLE_KEYS = ("x", "y")
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    MemoryError,
    RuntimeError,  # encrypted
)
_HOW_TO_SAVE = (
    "save one with np.savez_compressed('data.npz', x_train=…, y_train=…, x_test=…, y_test=…), "
    "or with x=… and y=…"
)


def read_npz(path: Path, *, test_fraction: float | None = None, seed: int = 0) -> Dataset:
    """Read a data set from a `.npz` file.

    The file holds `x_train`, `y_train`, `x_test` and `y_test`, or `x` and `y`, of which a
    stratified `test_fraction` (0.2 if not given) is set aside for testing. Layouts and labels are
    those of `from_arrays`; other arrays in the file are not read.
    """
    arrays = read_arrays(path, (_SPLIT_KEYS, _WHOLE_KEYS))
    if set(_SPLIT_KEYS) <= arrays.keys():
        parts = [arrays[key] for key in _SPLIT_KEYS]
    else:
        parts = [arrays[key] for key in _WHOLE_KEYS]
    return from_arrays(*parts, name=path.stem, test_fraction=test_fraction, seed=seed)


def read_arrays(path: Path, layouts: Iterable[Iterable[str]]) -> dict[str, NDArray[Any]]:
    """The arrays of the first of these layouts, given by their names, that the file has."""
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path, or {_HOW_TO_SAVE}")
    with contextlib.ExitStack() as stack:
        try:
            # Opened here, because np.load leaves the file open when it is no zip file.
            stream = stack.enter_context(path.open("rb"))
            archive = np.load(stream, allow_pickle=False)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} is not a readable .npz file; {_HOW_TO_SAVE}") from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds one bare array, not a data set; {_HOW_TO_SAVE}")
        stack.enter_context(archive)
        for layout in layouts:
            if set(layout) <= set(archive.files):
                return {key: _read_array(path, archive, key) for key in layout}
        found = ", ".join(archive.files) or "nothing"
    raise DataError(f"{path} holds {found}; {_HOW_TO_SAVE}")


def _read_array(path: Path, archive: Any, key: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[key]
    except _UNREADABLE as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path}: {key} is an array of Python objects, which only unsafe pickle can read; "
                f"save it as numbers, or text labels as a unicode array: "
                f"np.array({key}.tolist(), dtype=str)"
            ) from error
        raise DataError(
            f"{path}: {key} cannot be read ({error}); the file is damaged, make it again"
        ) from error
    return array
