"""Where data sets are kept, and what state their files are in.

A data set's files live in ROOT/NAME. They are also found where other tools put them under ROOT,
such as ROOT/MNIST/raw or ROOT/cifar-10-batches-bin, and as `.gz` where the original is one, so that
an existing folder of data sets can be used directly. A folder of images may be anywhere else, if it
was imported from there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenstream.data.checked_files import check, content_names, find_file, find_folder
from evenstream.data.known import DataFile, DatasetInfo, dataset_info
from evenstream.data.pins import FOLDER_PIN, pin_folder, read_record
from evenstream.errors import DataError
from evenstream.files import with_home

ROOT_VARIABLE = "EVENSTREAM_DATA"
"""Environment variable for the folder of data sets."""


@dataclass(frozen=True)
class FileStatus:
    """The result of checking one file of a data set, or all files of a folder of images.

    Attributes:
        name: The file, or the folder.
        status: `ok`: as in the registry; `pinned`: as at its import; `unpinned`: nothing to compare
            with.
        path: Where it is, or should be.
        problem: What is wrong with it.
    """

    name: str
    status: Literal["ok", "pinned", "unpinned", "missing", "altered"]
    path: Path
    problem: str = ""

    @property
    def usable(self) -> bool:
        """Whether it exists and nothing is known to be wrong with it."""
        return self.status not in ("missing", "altered")


def data_root(root: str | Path | None = None) -> Path:
    """The folder of data sets: the given one, $EVENSTREAM_DATA, or the user's cache."""
    chosen = root or os.environ.get(ROOT_VARIABLE)
    if chosen:
        return with_home(chosen).absolute()
    return _user_cache()


def _user_cache() -> Path:
    """The system's cache folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evenstream"
    if sys.platform == "win32":
        local = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        return local / "evenstream" / "evenstream" / "Cache"
    given = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(given) if given else Path.home() / ".cache") / "evenstream"


def verify(name: str, *, root: str | Path | None = None) -> list[FileStatus]:
    """Recompute the checksum of each file of a data set; a built-in set has no files.

    For a folder of images, the names and sizes of all files are compared with those at import.
    """
    info = dataset_info(name)
    folder = data_root(root)
    if info.is_tree:
        return [_folder_status(folder, info)]
    return [_file_status(folder, info, file) for file in info.files]


def find_in_root(root: Path, info: DatasetInfo, file: DataFile) -> Path | None:
    """The file in the data folder that is read, if there is one."""
    found = find_file(root, (info.name, *info.usual_folders), content_names(file))
    return found[0] if found else None


def find_images(root: Path, info: DatasetInfo) -> Path | None:
    """The folder of images that is read: the imported one, or one in a usual place."""
    imported = read_record(root, info.name).folder
    places = (info.name, *info.usual_folders)
    found = find_folder(root, (imported, *places) if imported else places)
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


def _folder_status(root: Path, info: DatasetInfo) -> FileStatus:
    path = find_images(root, info)
    if path is None:
        return FileStatus(str(root / info.name), "missing", root / info.name)
    pinned = read_record(root, info.name).pins.get(FOLDER_PIN)
    if pinned is None:
        advice = f"`evenstream data import {info.name} {path}` checks its layout and pins it"
        return FileStatus(str(path), "unpinned", path, advice)
    found = pin_folder(path)
    if not found.same_content(pinned):
        problem = (
            f"names or sizes of files are not those of {pinned.when}: {pinned.files} files with "
            f"{pinned.size} bytes then, {found.files} with {found.size} now"
        )
        return FileStatus(str(path), "altered", path, problem)
    return FileStatus(str(path), "pinned", path)


def how_to_get(info: DatasetInfo, root: Path, missing: Sequence[str] = ()) -> str:
    """What to tell a user whose data folder lacks a data set or some of its files."""
    imported = read_record(root, info.name).folder
    if missing:
        where = f": {', '.join(missing)} not found in {root / info.name}"
    elif imported:
        where = f" any more: there is no folder {root / imported}, from which it was imported"
    else:
        where = f" {root}"
    get = "" if info.by_hand else f" Run `evenstream data get {info.name}`."
    return f"{info.name} is not in the data folder{where}.{get} {offline_hint(info, root)}"


def offline_hint(info: DatasetInfo, root: Path) -> str:
    """What a user without a network can do."""
    import_command = f"`evenstream data import {info.name} DIR`"
    if info.by_hand:
        packed = " and ".join(f"{each.name} ({each.checksum})" for each in info.downloads)
        return f"{info.by_hand}, then run {import_command}. The archives are {packed}"
    if info.is_tree:
        packed = " and ".join(download.name for download in info.downloads)
        return f"Offline: run {import_command} with a folder DIR that has {packed}, unpacked or not"
    names = ", ".join(file.name for file in info.files)
    archives = [download.name for download in info.downloads if download.folder]
    holding = " or ".join(["these files", *archives])
    return (
        f"Offline: put {names} (or each as .gz) into {root / info.name}, or run {import_command} "
        f"with a folder DIR that holds {holding}"
    )
