"""Remembers data whose source publishes no checksum, and where folders of images are.

The first import of an archive pins its checksum, which later imports must match. The import of a
folder pins its contents. Everything is in one readable file, ROOT/imports.json.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from evenstream.data.checked_files import digest_of
from evenstream.errors import DataError
from evenstream.files import write_atomically

FOLDER_PIN = "names and sizes of all files"
"""The name under which a folder is pinned; archives are pinned under theirs."""


@dataclass(frozen=True)
class Pin:
    """The state of a file or folder when first seen."""

    files: int
    size: int
    sha256: str
    when: str

    def same_content(self, other: Pin) -> bool:
        """Whether both have the same content, regardless of when they were pinned."""
        return (self.files, self.size, self.sha256) == (other.files, other.size, other.sha256)


@dataclass(frozen=True)
class ImportRecord:
    """What is known about one imported data set.

    Attributes:
        folder: Where it is; relative to the data folder if it is in there.
        pins: The state of its archives and folder.
    """

    folder: str | None = None
    pins: dict[str, Pin] = field(default_factory=dict)


def pin_file(path: Path) -> Pin:
    """The pin of a file: its size and the SHA-256 of its bytes."""
    return Pin(1, path.stat().st_size, digest_of(path, "sha256"), date.today().isoformat())


def pin_folder(folder: Path) -> Pin:
    """The pin of a folder: a SHA-256 over the names and sizes of its files.

    The files are not read, so that a million of them take seconds. This detects missing, added or
    truncated files, but not a byte changed in place. Hidden files are ignored.
    """
    digest = hashlib.sha256()
    files = size = 0
    for name, file_size in _names_and_sizes(folder):
        digest.update(f"{name}\0{file_size}\n".encode(errors="surrogateescape"))
        files += 1
        size += file_size
    return Pin(files, size, digest.hexdigest(), date.today().isoformat())


def read_record(root: Path, name: str) -> ImportRecord:
    """The record of a data set; empty if it was never imported."""
    entry = _read_all(root).get(name, {})
    pins = {what: Pin(**pin) for what, pin in entry.get("pins", {}).items()}
    return ImportRecord(entry.get("folder"), pins)


def write_record(root: Path, name: str, record: ImportRecord) -> None:
    """Store the record of a data set, replacing the previous one."""
    records = {**_read_all(root), name: asdict(record)}
    write_atomically(_record_path(root), json.dumps(records, indent=2, sort_keys=True) + "\n")


def _record_path(root: Path) -> Path:
    return root / "imports.json"


def _read_all(root: Path) -> dict[str, Any]:
    path = _record_path(root)
    try:
        records: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for entry in records.values():
            if not isinstance(entry.get("folder"), str | None):
                raise TypeError("a folder must be text")
            for pin in entry["pins"].values():
                Pin(**pin)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path} cannot be read ({error}); remove it and import its data sets again"
        ) from error
    return records


def _names_and_sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """The files in a folder and in the folders below it, always in the same order."""
    waiting: list[tuple[str, int | None]] = [("", None)]
    while waiting:
        name, size = waiting.pop()
        if size is None:
            waiting += reversed(_entries(folder, name))
        else:
            yield name, size


def _entries(root: Path, where: str) -> list[tuple[str, int | None]]:
    """What a folder holds, sorted, without hidden files: names from the root, sizes of files."""
    try:
        with os.scandir(root / where) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        return [
            (f"{where}{entry.name}/", None)
            if entry.is_dir(follow_symlinks=False)
            else (f"{where}{entry.name}", entry.stat(follow_symlinks=False).st_size)
            for entry in entries
            if not entry.name.startswith(".")
        ]
    except OSError as error:
        raise DataError(f"cannot look into {root / where}: {error.strerror}") from error
