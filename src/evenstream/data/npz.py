"""Data sets from `.npz` files, read without ever unpickling."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from evenstream.data.arrays import from_arrays
from evenstream.data.dataset import Dataset
from evenstream.errors import DataError, some_of

_SPLIT_KEYS = ("x_train", "y_train", "x_test", "y_test")
_BESIDE_KEYS = ("x", "y", "x_test", "y_test")
_WHOLE_KEYS = ("x", "y")
_SCALE_KEYS = ("mean", "std")
ROOM, _RATIO = 1 << 30, 100
"""Bytes that arrays may take, plus this many for each byte of the file."""
_LONGEST_HEADER = 10_000  # of an array; NumPy does not accept longer ones either
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those written by NumPy
_HOW_TO_SAVE = (
    "save one with np.savez_compressed('data.npz', x_train=…, y_train=…, x_test=…, y_test=…), "
    "or with x=… and y=…"
)


def read_npz(path: Path, *, test_fraction: float | None = None, seed: int = 0) -> Dataset:
    """Read a data set from a `.npz` file.

    The file holds `x_train`, `y_train`, `x_test` and `y_test` (the first two may be called `x` and
    `y`), or `x` and `y` alone, of which a stratified `test_fraction` (0.2 if not given) is set
    aside for testing. Beside images, `mean` and `std` may say how their channels are normalised.
    Layouts and labels are those of `from_arrays`; other arrays in the file are not read.
    """
    layouts = (_SPLIT_KEYS, _BESIDE_KEYS, _WHOLE_KEYS)
    scaled = tuple((*layout, *_SCALE_KEYS) for layout in layouts)
    arrays = read_arrays(path, (*scaled, *layouts))
    scale = {key: arrays.pop(key) for key in _SCALE_KEYS if key in arrays}
    if next(iter(arrays.values())).ndim <= 2:  # a table, where they would mean something else
        scale = {}
    mean, std = (_channels(path, key, scale.get(key)) for key in _SCALE_KEYS)
    return from_arrays(
        *arrays.values(),
        name=path.stem,
        test_fraction=test_fraction,
        seed=seed,
        mean=mean,
        std=std,
    )


def _channels(path: Path, key: str, values: NDArray[Any] | None) -> list[float] | None:
    if values is None:
        return None
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise DataError(f"{path}: {key} must be a list of numbers, one for each channel")
    found: list[float] = values.tolist()
    return found


def read_arrays(path: Path, layouts: Iterable[Iterable[str]]) -> dict[str, NDArray[Any]]:
    """The arrays of the first of these layouts, given by their names, that the file has."""
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path, or {_HOW_TO_SAVE}")
    with _open(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for layout in layouts:
            if set(layout) <= members.keys():
                wanted = {key: members[key] for key in layout}
                _check_size(path, sum(info.file_size for info in wanted.values()))
                return {key: _read_array(path, archive, key, wanted[key]) for key in wanted}
    raise DataError(f"{path} holds {some_of([*members]) or 'nothing'}; {_HOW_TO_SAVE}")


def _open(path: Path) -> zipfile.ZipFile:
    try:
        with path.open("rb") as stream:
            bare = stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
        if not bare:
            return zipfile.ZipFile(path)
    except Exception as error:  # zipfile raises any kind of error on damaged files
        raise DataError(f"{path} is not a readable .npz file; {_HOW_TO_SAVE}") from error
    raise DataError(f"{path} holds one bare array, not a data set; {_HOW_TO_SAVE}")


def _check_size(path: Path, size: int) -> None:
    """Reject a small file whose arrays would fill the memory."""
    limit = ROOM + _RATIO * path.stat().st_size
    if size > limit:
        raise DataError(
            f"{path} would unpack to {size // 10**6} MB, more than {ROOM >> 30} GiB and {_RATIO} "
            "times its own size; if that is right, save it with np.savez, without compression"
        )


def _read_array(
    path: Path, archive: zipfile.ZipFile, key: str, info: zipfile.ZipInfo
) -> NDArray[Any]:
    try:
        if info.compress_type not in _COMPRESSIONS:
            raise ValueError("it is not compressed as NumPy does")
        with archive.open(info) as stream:
            holds_objects = _check_header(stream, info.file_size).hasobject
        if not holds_objects:
            with archive.open(info) as stream:
                array: NDArray[Any] = npy.read_array(stream, allow_pickle=False)
                return array
    except MemoryError as error:
        raise DataError(f"{path}: {key} does not fit into memory") from error
    except Exception as error:  # NumPy and zipfile raise any kind of error on damaged files
        why = str(error)[:200] or type(error).__name__
        raise DataError(
            f"{path}: {key} cannot be read ({why}); the file is damaged, make it again"
        ) from error
    raise DataError(
        f"{path}: {key} is an array of Python objects, which only unsafe pickle can read; "
        f"save it as numbers, or text labels as a unicode array: "
        f"np.array({key}.tolist(), dtype=str)"
    )


def _check_header(stream: IO[bytes], size: int) -> np.dtype[Any]:
    """The type of an array with this many bytes; raises `ValueError` if its header differs.

    NumPy itself would allocate whatever the header announces before reading any values.
    """
    start = stream.read(12)
    if start[:6] != npy.MAGIC_PREFIX or start[6:7] not in (b"\1", b"\2"):
        raise ValueError("it is not an array in NumPy's format")
    in_four_bytes = start[6] == 2
    begin = 12 if in_four_bytes else 10
    length = int.from_bytes(start[8:begin], "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes")
    read_header = npy.read_array_header_2_0 if in_four_bytes else npy.read_array_header_1_0
    shape, _, dtype = read_header(io.BytesIO(start[8:] + stream.read(length)))
    announced, held = math.prod(shape) * dtype.itemsize, size - begin - length
    if announced != held and not dtype.hasobject:
        raise ValueError(f"its header announces {announced} bytes of values, there are {held}")
    return dtype
