"""Where data sets are kept, and what state their files are in.

A data set's files live in ROOT/NAME. They are also found where other tools put them under ROOT,
such as ROOT/MNIST/raw or ROOT/cifar-10-batches-bin, and as `.gz` where the original is one, so that
an existing folder of data sets can be used as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenstream.data.files import check, content_names, find_file
from evenstream.data.registry import DataFile, DatasetInfo, dataset_info
from evenstream.errors import DataError

ROOT_VARIABLE = "EVENSTREAM_DATA"
"""Environment variable that says where data sets are kept."""


@dataclass(frozen=True)
class FileStatus:
    """What checking one file of a data set found."""

    name: str
    status: Literal["ok", "missing", "altered"]
    path: Path
    problem: str = ""


def data_root(root: str | Path | None = None) -> Path:
    """The folder of data sets: the one given, else $EVENSTREAM_DATA, else the user's cache."""
    chosen = root or os.environ.get(ROOT_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    import pooch

    return Path(pooch.os_cache("evenstream"))


def verify(name: str, *, root: str | Path | None = None) -> list[FileStatus]:
    """Recompute the checksum of each file of a data set; a built-in set has no files."""
    info = dataset_info(name)
    folder = data_root(root)
    return [_file_status(folder, info, file) for file in info.files]


def find_in_root(root: Path, info: DatasetInfo, file: DataFile) -> Path | None:
    """The file in the data folder that is read, if there is one."""
    found = find_file(root, (info.name, *info.usual_folders), content_names(file))
    return found[0] if found else None


def _file_status(root: Path, info: DatasetInfo, file: DataFile) -> FileStatus:
    path = find_in_root(root, info, file)
    if path is None:
        return FileStatus(file.name, "missing", root / info.name / file.name)
    try:
        check(path, file)
    except DataError as error:
        return FileStatus(file.name, "altered", path, str(error))
    return FileStatus(file.name, "ok", path)


def how_to_get(info: DatasetInfo, root: Path, missing: list[str]) -> str:
    """What to tell a user whose data folder lacks files of a data set."""
    return (
        f"{info.name} is not in the data folder: {', '.join(missing)} not found in "
        f"{root / info.name}. Run `evenstream data get {info.name}`. {offline_hint(info, root)}"
    )


def offline_hint(info: DatasetInfo, root: Path) -> str:
    """What a user without a network can do."""
    names = ", ".join(file.name for file in info.files)
    archives = [download.name for download in info.downloads if download.folder]
    holding = " or ".join(["these files", *archives])
    return (
        f"Offline: put {names} (or each as .gz) into {root / info.name}, or run "
        f"`evenstream data import {info.name} DIR` with a folder DIR that holds {holding}"
    )
