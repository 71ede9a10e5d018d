"""The data sets a user can name: which there are, and loading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenstream.data.acquire import get, import_files
from evenstream.data.builders import build, read_images
from evenstream.data.checked_files import AlteredFile, read_checked
from evenstream.data.dataset import Dataset
from evenstream.data.known import DATASETS, DatasetInfo, dataset_info
from evenstream.data.locate import (
    FileStatus,
    data_root,
    find_images,
    find_in_root,
    how_to_get,
    verify,
)
from evenstream.data.npz import read_npz
from evenstream.data.pins import FOLDER_PIN, read_record
from evenstream.errors import DataError, InputError, calling, shown
from evenstream.files import as_path, with_home

if TYPE_CHECKING:
    from evenstream.data.image_files import OnCorrupt

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


_WHY_NOT = {
    "test_fraction": "has its own test samples; leave test_fraction out",
    "size": "does not come from image files; leave size out",
    "on_corrupt": "does not come from image files; leave corrupt out",
    "label": "is not a table; leave label out",
    "superclass": "is not a table or folder of images with superclasses; leave superclass out",
    "ignore": "is not a table; leave ignore out",
    "categorical": "is not a table; leave categorical out",
    "text": "is not a table; leave text out",
    "date": "is not a table; leave date out",
}
"""What to tell the user when an option does not apply."""
_OF_TABLES = ("superclass", "ignore", "categorical", "text", "date")
_WITHOUT_FILES = {"bundled": "built in", "own": "registered"}
"""Location of data sets without files known here, by layout."""


@dataclass(frozen=True)
class DatasetRow:
    """A line in the list of data sets.

    Attributes:
        name: The registered name.
        description: What is in it.
        where: Its folder, `built in`, or `registered` for your own.
        present: Whether all files are there; `verify` tells whether they are also correct.
        checked: What `verify` compares with: `verified` checksums of the registry, or for data
            whose source has none what was `pinned` at the first import, if it was imported.
        size: Bytes on disk once it is there; 0 if not known.
        download_size: Bytes to download to get it.
        by_hand: Whether it must be downloaded by hand.
        source: The page that describes it.
        licence: What the source says about its use.
    """

    name: str
    description: str
    where: str
    present: bool
    checked: Literal["verified", "unverified (pinned)", "unverified"]
    size: int
    download_size: int
    by_hand: bool
    source: str
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
    size: int | None = None,
    corrupt: OnCorrupt | None = None,
    label: str | None = None,
    superclass: str | None = None,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    text: Sequence[str] = (),
    date: Sequence[str] = (),
    root: str | Path | None = None,
) -> Dataset:
    """Load a data set by its registered name, or from a file or folder. Never downloads.

    Args:
        name_or_path: A name that `list_datasets` lists, or the path of a `.npz` file, of a table
            (`.csv`, `.jsonl`, `.parquet`) or of a folder of images (`CLASS/*.jpg`).
        test_fraction: For a file or folder without test samples: the share to test on (0.2 if not
            given).
        seed: For such a file or folder: which samples are set aside.
        size: For images in files: height and width to resize them to.
        corrupt: For images in files: whether an unreadable one stops the run or is skipped.
        label: For tables: the column that holds the labels.
        superclass: For tables: the column that holds the superclasses, for streams that need them.
            For folders of images: "folder" if they are `SUPERCLASS/CLASS/*.jpg`.
        ignore: For tables: columns to leave out.
        categorical: For tables: columns to treat as categories, whatever they look like.
        text: For tables: columns to treat as free text.
        date: For tables: columns to treat as dates or times, NAME or NAME=FORMAT.
        root: The folder of data sets, if not the default.

    Raises:
        UnknownName: There is no such data set.
        InputError: An option does not apply to what is loaded.
        DataError: Files are missing, damaged or of the wrong layout; the message says what to do.
    """
    given = {
        "test_fraction": test_fraction,
        "size": size,
        "on_corrupt": corrupt,
        "label": label,
        "superclass": superclass,
        "ignore": ignore or None,
        "categorical": categorical or None,
        "text": text or None,
        "date": date or None,
    }
    options = {name: value for name, value in given.items() if value is not None}
    path = _path_of(name_or_path)
    if path is not None:
        return _load_path(path, seed, options)
    return _load_registered(dataset_info(str(name_or_path)), data_root(root), options)


def _load_registered(info: DatasetInfo, root: Path, options: dict[str, Any]) -> Dataset:
    if info.is_tree:
        _check_options(info.name, options, "size", "on_corrupt")
        folder = find_images(root, info)
        if folder is None:
            raise DataError(how_to_get(info, root))
        return read_images(info, folder, **options)
    _check_options(info.name, options)
    if info.load is not None:
        with calling(f"the function of data set {info.name!r}"):
            loaded = info.load()
        return _checked(info.name, loaded)
    paths = _file_paths(info, root)
    files = {file.name: file for file in info.files}

    def read(name: str) -> bytearray:
        try:
            return read_checked(paths[name], files[name])
        except AlteredFile as error:
            raise DataError(
                f"{error}; remove it and run `evenstream data get {info.name}`"
            ) from error

    return build(info, read)


def _checked(name: str, loaded: Any) -> Dataset:
    if not isinstance(loaded, Dataset):
        raise DataError(
            f"the function of data set {name!r} must return a Dataset (`from_arrays` creates "
            f"one), but returned {shown(loaded)}"
        )
    return loaded


def _load_path(path: Path, seed: int, options: dict[str, Any]) -> Dataset:
    from evenstream.data.tables import TABLE_SUFFIXES, read_table

    suffix = path.suffix.lower()
    if path.is_dir():
        from evenstream.data.images.image_folder import read_image_folder

        allowed = ("test_fraction", "size", "on_corrupt", "superclass")
        _check_options(f"the image folder {path}", options, *allowed)
        return read_image_folder(path, seed=seed, **options)
    if suffix == ".npz":
        _check_options(str(path), options, "test_fraction")
        return read_npz(path, seed=seed, **options)
    if suffix in TABLE_SUFFIXES:
        _check_options(f"the table {path}", options, "test_fraction", "label", *_OF_TABLES)
        return read_table(path, seed=seed, **options)
    suffixes = ", ".join([".npz", *TABLE_SUFFIXES])
    raise DataError(
        f"{path} is not a data set: give a folder of images (CLASS/*.jpg) or a file that ends in "
        f"{suffixes}; or one of the names {', '.join(DATASETS)}"
    )


def _check_options(what: str, options: dict[str, Any], *allowed: str) -> None:
    """Reject options that would have no effect on what is loaded."""
    for name in options.keys() - set(allowed):
        raise InputError(f"{what} {_WHY_NOT[name]}")


def _file_paths(info: DatasetInfo, root: Path) -> dict[str, Path]:
    """The path of each file of a data set; raises an error that lists missing ones."""
    found = {file.name: find_in_root(root, info, file) for file in info.files}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise DataError(how_to_get(info, root, missing))
    return {name: path for name, path in found.items() if path is not None}


def _path_of(name_or_path: str | Path) -> Path | None:
    """The path, or None for a registered name (or text that looks like one)."""
    if isinstance(name_or_path, Path):
        return with_home(name_or_path)
    return None if name_or_path in DATASETS else as_path(name_or_path)


def _row(info: DatasetInfo, root: Path) -> DatasetRow:
    checked: Literal["verified", "unverified (pinned)", "unverified"]
    if info.is_tree:
        found = [find_images(root, info)]
        pinned = FOLDER_PIN in read_record(root, info.name).pins
        checked = "unverified (pinned)" if pinned else "unverified"
    else:
        checked = "unverified" if info.layout == "own" else "verified"
        files = [find_in_root(root, info, file) for file in info.files]
        found = [path and path.parent for path in files]
    where = next((folder for folder in found if folder is not None), root / info.name)
    return DatasetRow(
        name=info.name,
        description=info.description,
        where=_WITHOUT_FILES.get(info.layout, str(where)),
        present=None not in found,
        checked=checked,
        size=info.size,
        download_size=info.download_size,
        by_hand=bool(info.by_hand),
        source=info.source,
        licence=info.licence,
    )
