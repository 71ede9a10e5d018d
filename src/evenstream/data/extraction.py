"""Whole folders out of archives, without trusting the archives.

Every member is looked at before the first one is written. A name that leads out of the folder, a
link, a device, or more data than such an archive can honestly hold refuses the archive as a whole.
Members become plain files: no owners, no permissions, nothing executable.
"""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from gzip import BadGzipFile
from pathlib import Path, PureWindowsPath
from typing import IO, Literal

from evenstream.data.files import AlteredFile

_CHUNK = 1 << 20
_RATIO = 20  # images hardly shrink; the JSON of iNaturalist does, several times
_ROOM = 64 << 20  # small archives may hold more than the ratio says
_LEAST_SIZE = 4096  # what even an empty file costs on disk

_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    BadGzipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a compression that zipfile does not know
)

_Kind = Literal["file", "folder", "other"]


@dataclass(frozen=True)
class _Member:
    """What an archive says of one of its members, and how to read it."""

    name: str
    kind: _Kind
    size: int
    open: Callable[[], IO[bytes] | None]


def extract(archive: Path, folder: Path) -> None:
    """Write all files of a `.zip`, `.tar` or `.tar.gz` into a folder, if all of them are harmless.

    Raises:
        AlteredFile: The archive is damaged or refused. In the second case nothing was written.
    """
    try:
        for _ in _checked(archive):
            pass
        for member, parts in _checked(archive):
            _write(member, folder.joinpath(*parts))
    except _UNREADABLE as error:
        raise AlteredFile(f"{archive} is not a readable archive: {error}") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise AlteredFile(f"{archive} holds {error.filename} more than once") from error


def _checked(archive: Path) -> Iterator[tuple[_Member, tuple[str, ...]]]:
    """The members of an archive and the parts of their names; refuses the first that may do harm.

    Names are taken apart as Windows does, which knows every separator and drive that there is.
    """
    limit = _ROOM + _RATIO * archive.stat().st_size
    total = 0
    for member in _members(archive):
        name = PureWindowsPath(member.name)
        if name.anchor or ".." in name.parts:
            raise AlteredFile(f"{archive} is refused: {member.name!r} leads out of the folder")
        if member.kind == "other" or (member.kind == "file" and not name.parts):
            raise AlteredFile(
                f"{archive} is refused: {member.name!r} is neither a plain file nor a folder"
            )
        total += max(member.size, _LEAST_SIZE)
        if total > limit:
            raise AlteredFile(
                f"{archive} is refused: it would unpack to more than {limit // 10**6} MB, that is "
                f"{_ROOM >> 20} MiB and {_RATIO} times its own size"
            )
        yield member, name.parts


def _members(archive: Path) -> Iterator[_Member]:
    return _zip_members(archive) if archive.suffix == ".zip" else _tar_members(archive)


def _zip_members(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            unix_type = stat.S_IFMT(info.external_attr >> 16)
            encrypted = info.flag_bits & 1
            kind: _Kind = "folder" if info.is_dir() else "file"
            if encrypted or unix_type not in (0, stat.S_IFREG, stat.S_IFDIR):
                kind = "other"
            yield _Member(info.filename, kind, info.file_size, partial(archive.open, info))


def _tar_members(path: Path) -> Iterator[_Member]:
    mode: Literal["r:", "r:gz"] = "r:gz" if path.suffix in (".gz", ".tgz") else "r:"
    with tarfile.open(path, mode) as archive:
        for info in archive:
            kind: _Kind = "file" if info.isreg() else "folder" if info.isdir() else "other"
            yield _Member(info.name, kind, info.size, partial(archive.extractfile, info))
            # It would keep a record of each of a million files.
            archive.members = []  # type: ignore[attr-defined]


def _write(member: _Member, target: Path) -> None:
    if member.kind == "folder":
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = member.open()
    assert content is not None, "a plain file has content"
    with content, target.open("xb") as file:
        shutil.copyfileobj(content, file, _CHUNK)
