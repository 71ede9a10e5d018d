"""The data sets a user can name: which there are, and loading them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evenstream.data.acquire import get, import_files
from evenstream.data.builders import build
from evenstream.data.dataset import Dataset
from evenstream.data.files import AlteredFile, read_checked
from evenstream.data.locate import FileStatus, data_root, find_in_root, how_to_get, verify
from evenstream.data.npz import read_npz
from evenstream.data.registry import DATASETS, DatasetInfo, dataset_info
from evenstream.errors import DataError, InputError

__all__ = [
    "DatasetRow",
    "FileStatus",
    "data_root",
    "get",
    "import_files",
    "list_datasets",
    "load_dataset",
    "verify",
]


@dataclass(frozen=True)
class DatasetRow:
    """A line in the list of data sets.

    Attributes:
        name: The registered name.
        description: What is in it.
        where: Its folder, or `built in`.
        present: Whether all files are there; `verify` tells whether they are also right.
        size: Bytes on disk once it is there.
        download_size: Bytes to download to get it.
        licence: What the source says about its use.
    """

    name: str
    description: str
    where: str
    present: bool
    size: int
    download_size: int
    licence: str


def list_datasets(*, root: str | Path | None = None) -> list[DatasetRow]:
    """All registered data sets, and whether their files are in the data folder."""
    folder = data_root(root)
    return [_row(info, folder) for info in DATASETS.values()]


def load_dataset(
    name_or_path: str | Path,
    *,
    test_fraction: float | None = None,
    seed: int = 0,
    root: str | Path | None = None,
) -> Dataset:
    """Load a data set by its registered name, or from a `.npz` file. Never downloads.

    Args:
        name_or_path: A name that `list_datasets` lists, or the path of a `.npz` file.
        test_fraction: For a file with `x` and `y` only: the share to test on (0.2 if not given).
        seed: For such a file: which samples are set aside.
        root: The folder of data sets, if not the usual one.

    Raises:
        UnknownName: There is no such data set.
        DataError: Files are missing, damaged or of the wrong layout; the message says what to do.
    """
    path = _as_path(name_or_path)
    if path is not None:
        return read_npz(path, test_fraction=test_fraction, seed=seed)
    info = dataset_info(str(name_or_path))
    if test_fraction is not None:
        raise InputError(f"{info.name} has its own test samples; leave test_fraction out")
    paths = _file_paths(info, data_root(root))
    files = {file.name: file for file in info.files}

    def read(name: str) -> bytearray:
        try:
            return read_checked(paths[name], files[name])
        except AlteredFile as error:
            raise DataError(
                f"{error}; remove it and run `evenstream data get {info.name}`"
            ) from error

    return build(info, read)


def _file_paths(info: DatasetInfo, root: Path) -> dict[str, Path]:
    """Where each file of a data set is; files that are missing are an error that lists them."""
    found = {file.name: find_in_root(root, info, file) for file in info.files}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise DataError(how_to_get(info, root, missing))
    return {name: path for name, path in found.items() if path is not None}


def _as_path(name_or_path: str | Path) -> Path | None:
    """The path that is meant, or None for a registered name (or what looks like one)."""
    if isinstance(name_or_path, Path):
        return name_or_path.expanduser()
    if name_or_path in DATASETS:
        return None
    path = Path(name_or_path).expanduser()
    is_path = bool(path.suffix or len(path.parts) > 1 or path.is_file())
    return path if is_path else None


def _row(info: DatasetInfo, root: Path) -> DatasetRow:
    paths = [find_in_root(root, info, file) for file in info.files]
    present = None not in paths
    found = next((path.parent for path in paths if path is not None), root / info.name)
    return DatasetRow(
        name=info.name,
        description=info.description,
        where=str(found) if info.files else "built in",
        present=present,
        size=info.size,
        download_size=info.download_size,
        licence=info.licence,
    )
