"""Imports folders of images: unpacked ones stay in place, archives go to the data folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evenstream.data.archives import check_download
from evenstream.data.builders import read_images
from evenstream.data.checked_files import INCOMING, AlteredFile, find_file, find_folder
from evenstream.data.extraction import extract
from evenstream.data.known import DatasetInfo, Download
from evenstream.data.locate import offline_hint
from evenstream.data.pins import (
    FOLDER_PIN,
    ImportRecord,
    Pin,
    pin_file,
    pin_folder,
    read_record,
    write_record,
)
from evenstream.errors import DataError


def import_images(info: DatasetInfo, source: Path, places: tuple[str, ...], root: Path) -> None:
    """Import a data set from a folder, unpacked or in its original archives.

    An unpacked one is not copied: its layout is checked, and its location and contents are
    remembered. Archives are checked, or pinned, and unpacked into the data folder.
    """
    problems = []
    for folder in find_folder(source, places):
        try:
            read_images(info, folder)
        except DataError as error:
            problems.append(str(error))
        else:
            _remember(info, folder, root, read_record(root, info.name).pins)
            return
    archives = [find_file(source, places, (download.name,)) for download in info.downloads]
    if info.by_hand or not all(archives):
        raise DataError(
            f"{source} does not hold {info.name}: {'; '.join(problems)}. {offline_hint(info, root)}"
        )
    check_room(info, root)
    pins = read_record(root, info.name).pins
    for download, found in zip(info.downloads, archives, strict=True):
        check_archive(found[0], download, pins)
    unpack_images(info, [found[0] for found in archives], root, pins)


def check_room(info: DatasetInfo, root: Path) -> None:
    """Reject unpacking where something already exists."""
    if (root / info.name).exists():
        raise DataError(
            f"{root / info.name} already exists; remove it to unpack {info.name} again, or run "
            f"`evenstream data import {info.name} {root / info.name}` to use it as is"
        )


def check_archive(path: Path, download: Download, pins: dict[str, Pin]) -> None:
    """Reject an archive that differs from the registry or an earlier import; pin an unknown one."""
    check_download(path, download)
    if download.checksum is not None:
        return
    found = pin_file(path)
    pinned = pins.setdefault(download.name, found)
    if not found.same_content(pinned):
        raise AlteredFile(
            f"{path} is not the file that was imported on {pinned.when}: its SHA-256 is "
            f"{found.sha256}, not {pinned.sha256}. If it is correct, remove {download.name} "
            "from imports.json in the data folder"
        )


def unpack_images(
    info: DatasetInfo, archives: list[Path], root: Path, pins: dict[str, Pin]
) -> None:
    """Unpack checked archives to ROOT/NAME, which appears only once complete and readable."""
    with tempfile.TemporaryDirectory(dir=root, prefix=INCOMING) as scratch:
        unpacked = Path(scratch).resolve() / "unpacked"
        for archive in archives:
            extract(archive, unpacked)
        folder = unpacked / info.downloads[0].folder
        try:
            read_images(info, folder)
        except DataError as error:
            names = " and ".join(str(archive) for archive in archives)
            problem = str(error).replace(str(unpacked), names)
            raise DataError(f"{names} does not hold {info.name} as expected: {problem}") from error
        folder.rename(root / info.name)
    _remember(info, root / info.name, root, pins)


def _remember(info: DatasetInfo, folder: Path, root: Path, pins: dict[str, Pin]) -> None:
    inside = folder.is_relative_to(root)
    where = folder.relative_to(root) if inside else folder
    write_record(
        root, info.name, ImportRecord(str(where), {**pins, FOLDER_PIN: pin_folder(folder)})
    )
