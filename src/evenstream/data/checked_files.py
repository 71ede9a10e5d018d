"""Files checked before use: hashing, reading and installing without partial results."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from evenstream.data.known import DataFile
from evenstream.errors import DataError
from evenstream.files import exclusive

INCOMING = ".incoming-"
"""Prefix of files and folders that are not complete yet."""

_CHUNK = 1 << 20
_READ_ERRORS = (OSError, EOFError, zlib.error, tarfile.TarError)


class AlteredFile(DataError):
    """The content is not what the registry expects."""


def find_file(folder: Path, places: tuple[str, ...], names: tuple[str, ...]) -> list[Path]:
    """The files under `folder` in one of these places and with one of these names."""
    candidates = (folder / place / name for place in places for name in names)
    try:
        return [path for path in candidates if path.is_file()]
    except OSError as error:
        raise DataError(f"cannot look into {folder}: {error.strerror}") from error


def find_folder(folder: Path, places: Iterable[str]) -> list[Path]:
    """Those of the places under `folder` (or elsewhere, if absolute) that exist as folders."""
    try:
        return [folder / place for place in places if (folder / place).is_dir()]
    except OSError as error:
        raise DataError(f"cannot look into {folder}: {error.strerror}") from error


def content_names(file: DataFile) -> tuple[str, ...]:
    """The names a data file may have: its own, and that of its compressed form."""
    return (file.name, f"{file.name}.gz")


@contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its content, gunzipped if its name ends in `.gz`."""
    try:
        stream: IO[bytes] = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    with stream:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=stream) as content:
                yield content  # type: ignore[misc]  # GzipFile is a binary stream in all but name
        else:
            yield stream


def checked_chunks(content: IO[bytes], file: DataFile, source: str) -> Iterator[bytes]:
    """Yield the content in chunks; raise `AlteredFile` at the end if it was not as expected.

    Reading stops at the expected size, so that a file that decompresses without end does no harm.
    Do not trust any chunk until the last one has been read.
    """
    digest = hashlib.sha256()
    size = 0
    while True:
        try:
            chunk = content.read(_CHUNK)
        except _READ_ERRORS as error:
            raise AlteredFile(f"{source} is damaged: {error}") from error
        if not chunk:
            break
        size += len(chunk)
        if size > file.size:
            raise AlteredFile(f"{source} holds more than the expected {file.size} bytes")
        digest.update(chunk)
        yield chunk
    if size < file.size:
        raise AlteredFile(f"{source} is cut short: {size} of {file.size} bytes")
    if digest.hexdigest() != file.sha256:
        raise AlteredFile(
            f"{source} is not the expected file: its SHA-256 is {digest.hexdigest()}, "
            f"not {file.sha256}"
        )


def read_checked(path: Path, file: DataFile) -> bytearray:
    """The file's content in memory, once its size and SHA-256 have been checked."""
    content = bytearray()
    with open_content(path) as stream:
        for chunk in checked_chunks(stream, file, str(path)):
            content += chunk
    return content


def check(path: Path, file: DataFile) -> None:
    """Raise `AlteredFile` if the file's content is not as expected."""
    with open_content(path) as stream:
        for _ in checked_chunks(stream, file, str(path)):
            pass


def digest_of(path: Path, algorithm: str) -> str:
    """The checksum of a file, in hexadecimal digits."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.new(algorithm, usedforsecurity=False)
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


def install(content: IO[bytes], file: DataFile, folder: Path, source: str) -> Path:
    """Write content to `folder`, under its final name only once it is complete and checked.

    Until then it is next to the folder, so that a rejected file leaves no empty folder behind.
    """
    handle, temporary_name = tempfile.mkstemp(dir=folder.parent, prefix=INCOMING)
    temporary = Path(temporary_name)
    try:
        with os.fdopen(handle, "wb") as output:
            for chunk in checked_chunks(content, file, source):
                output.write(chunk)
        temporary.chmod(0o644)
        folder.mkdir(exist_ok=True)
        return temporary.replace(folder / file.name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def writing_under(root: Path) -> Iterator[None]:
    """Change the data folder exclusively, after removing what a killed process left unfinished.

    A full disk or an unwritable folder becomes a `DataError` that says so. A new data folder that
    stays empty is removed.
    """
    made: list[Path] = []
    try:
        made = [folder for folder in (root, *root.parents) if not folder.exists()]
        root.mkdir(parents=True, exist_ok=True)
        with exclusive(root):
            for leftover in root.glob(f"{INCOMING}*"):
                remove(leftover)
            yield
    except OSError as error:
        raise DataError(
            f"cannot write to the data folder {root}: {error.strerror or error}; free some "
            "space there or set EVENSTREAM_DATA to a writable folder"
        ) from error
    finally:
        remove_empty(made)


def remove(path: Path) -> None:
    """Delete a file, or a folder with all its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_empty(folders: Iterable[Path]) -> None:
    """Delete those of the folders that exist and are empty, in the given order."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
