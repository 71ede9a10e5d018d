"""Unpacks whole folders from archives, without trusting the archives.

Every member is checked before the first one is written. If any has a name that leads out of the
folder or that no file should have, is a link or a device, or if there is more data than such an
archive can honestly hold, the whole archive is rejected. Members become plain files: no owners, no
permissions, nothing executable.
"""

from __future__ import annotations

import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import IO, Literal, cast

from evenstream.data.checked_files import AlteredFile, open_content
from evenstream.errors import DataError

_CHUNK = 1 << 16
_RATIO = 20  # images hardly shrink; the JSON of iNaturalist does, several times
ROOM = 64 << 20  # small archives may exceed the ratio
_LEAST_SIZE = 4096  # the cost of even an empty file on disk
_LONGEST_PART, _LONGEST_NAME, _DEEPEST = 255, 1000, 64  # bytes, bytes, folders
_CONTROL_CHARACTERS = re.compile(r"[\0-\x1f\x7f-\x9f]")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a limit

_Kind = Literal["file", "folder", "encrypted", "compressed in a way that is not read", "other"]


@dataclass(frozen=True)
class _Member:
    """An archive's description of a member, and how to read it."""

    name: str
    kind: _Kind
    size: int
    open: Callable[[], IO[bytes] | None]


def extract(archive: Path, folder: Path) -> None:
    """Write all files of a `.zip`, `.tar` or `.tar.gz` into a folder, if all are harmless.

    Raises:
        AlteredFile: The archive is damaged or rejected. In the second case nothing was written.
    """
    for _ in _checked(archive):
        pass
    for member, parts in _checked(archive):
        try:
            _write(archive, member, folder.joinpath(*parts))
        except (FileExistsError, NotADirectoryError) as error:
            raise AlteredFile(f"{archive} holds {error.filename} more than once") from error


def _checked(archive: Path) -> Iterator[tuple[_Member, tuple[str, ...]]]:
    """The members of an archive and the parts of their names; rejects potentially harmful ones.

    Names are split as on Windows, which knows every kind of separator and drive.
    """
    limit = ROOM + _RATIO * archive.stat().st_size
    total = 0
    for member in _members(archive, limit):
        name = PureWindowsPath(member.name)
        objection = _objection(member, name)
        if objection:
            raise AlteredFile(f"{archive} is rejected: {_shown(member.name)} {objection}")
        total += max(member.size, _LEAST_SIZE)
        if total > limit:
            raise _too_much(archive, limit)
        yield member, name.parts


def _objection(member: _Member, name: PureWindowsPath) -> str:
    """The objection to a member; empty if it is harmless."""
    if name.anchor or ".." in name.parts:
        return "leads out of the folder"
    if _CONTROL_CHARACTERS.search(member.name):
        return "has control characters in its name"
    lengths = [len(part.encode(errors="surrogateescape")) for part in name.parts]
    if (
        max(lengths, default=0) > _LONGEST_PART
        or sum(lengths) > _LONGEST_NAME
        or len(lengths) > _DEEPEST
    ):
        return "is too long a name"
    if member.kind not in ("file", "folder", "other"):
        return f"is {member.kind}"
    if member.kind == "other" or (member.kind == "file" and not name.parts):
        return "is neither a plain file nor a folder"
    return "" if member.size >= 0 else f"has {member.size} bytes"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else f"{name[:100]}...")


def _too_much(archive: Path, limit: int) -> AlteredFile:
    return AlteredFile(
        f"{archive} is rejected: it would unpack to more than {limit // 10**6} MB, that is "
        f"{ROOM >> 20} MiB and {_RATIO} times its own size"
    )


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # zipfile and tarfile raise any kind of error on damaged files
        why = str(error) or type(error).__name__
        raise AlteredFile(f"{archive} is not a readable archive: {why}") from error


def _members(archive: Path, limit: int) -> Iterator[_Member]:
    members = _zip_members(archive) if archive.suffix == ".zip" else _tar_members(archive, limit)
    while True:
        with _reading(archive):
            member = next(members, None)
        if member is None:
            return
        yield member


def _zip_members(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.orig_filename  # in full; zipfile truncates it at a NUL
            yield _Member(name, _zip_kind(info), info.file_size, partial(archive.open, info))


def _zip_kind(info: zipfile.ZipInfo) -> _Kind:
    if info.flag_bits & 1:
        return "encrypted"
    if info.compress_type not in _COMPRESSIONS:
        return "compressed in a way that is not read"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "other"
    return "folder" if info.filename.endswith("/") else "file"


def _tar_members(path: Path, limit: int) -> Iterator[_Member]:
    with (
        open_content(path) as stream,
        tarfile.open(fileobj=cast("IO[bytes]", _InChunks(stream)), mode="r:") as archive,
    ):
        for info in archive:
            kind: _Kind = "file" if info.isreg() else "folder" if info.isdir() else "other"
            yield _Member(info.name, kind, info.size, partial(archive.extractfile, info))
            # It would keep a record of each of a million files.
            archive.members = []  # type: ignore[attr-defined]
        while stream.read(_CHUNK):  # to the end, where gzip keeps its checksum
            if stream.tell() > limit:
                raise _too_much(path, limit)


class _InChunks:
    """A file that rejects large reads: a header that asks for one lies."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.seek, self.tell = stream, stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if size > _CHUNK:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._stream.read(size)


def _write(archive: Path, member: _Member, target: Path) -> None:
    if member.kind == "folder":
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        for chunk in _chunks(archive, member):
            file.write(chunk)


def _chunks(archive: Path, member: _Member) -> Iterator[bytes]:
    with _reading(archive):
        content = member.open()
    assert content is not None, "a plain file has content"
    with content:
        while True:
            with _reading(archive):
                chunk = content.read(_CHUNK)
            if not chunk:
                return
            yield chunk
