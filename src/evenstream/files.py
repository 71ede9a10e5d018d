"""Files that are either complete or absent, and folders used by one process at a time."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from evenstream.errors import DataError, EvenstreamError, InputError, shown
from evenstream.interruption import Interrupted, StopFlag

TEMPORARY = ".tmp"
AS_IT_IS = "surrogateescape"
"""How to encode bytes of a path that are not valid text."""


def safe_name(text: str) -> str:
    """A file name for a method, or for the last part of a stream's name."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", text.rpartition("/")[2])


def with_home(path: str | Path) -> Path:
    """The path with `~` or `~user` expanded; unchanged for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def as_path(text: str) -> Path | None:
    """The path, or None for text that looks like a name."""
    if not text:
        return None
    if "\0" in text:
        raise InputError(f"{text!r} is not a path: it has a NUL character")
    path = with_home(text)
    return path if path.suffix or len(path.parts) > 1 or path.exists() else None


def given_path(what: str, path: Any) -> Path:
    """Check a path given by the user."""
    why: object = "it is empty"
    try:
        made = Path(path)
        if str(path):
            os.lstat(made)
            return made
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return made
    except (OSError, TypeError, ValueError) as error:
        why = error
    raise InputError(f"{what} must be a path, but {shown(path)} is not: {why}")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; a `DataError` says why there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"it has no {path.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path.name} cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{path.name} is not an object")
    return found


def object_or_none(path: Path) -> dict[str, Any] | None:
    """The same; None if there is none."""
    try:
        return read_object(path)
    except DataError:
        return None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new."""
    with replacing(path) as file:
        file.write(content.encode(errors=AS_IT_IS) if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write in place of `path`, which it replaces if the block succeeds.

    A link stays, and the file it points to is replaced. Devices, pipes and the file that receives
    the standard output are written to directly.
    """
    try:
        before: os.stat_result | None = path.stat()
    except FileNotFoundError:
        before = None
    into = None if before is None else _open_to_write_into(path, before)
    if into is not None:
        with into as file:
            yield file
        return
    path = path.resolve()  # the link itself must not be replaced
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        temporary.unlink(missing_ok=True)  # of a killed process
        with temporary.open("xb") as file:
            if before is not None:
                with suppress(OSError, AttributeError):  # not the owner, or Windows
                    os.chown(temporary, before.st_uid, before.st_gid)
                temporary.chmod(stat.S_IMODE(before.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _open_to_write_into(path: Path, status: os.stat_result) -> BinaryIO | None:
    """The existing file, if it cannot be replaced; None for a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    with suppress(OSError):  # the standard output is closed
        if os.path.samestat(status, os.fstat(1)):
            sys.stdout.flush()
            return os.fdopen(os.dup(1), "wb")
    if stat.S_ISSOCK(status.st_mode):
        raise OSError(errno.ENXIO, "a socket cannot be written to as a file", str(path))
    return None if stat.S_ISREG(status.st_mode) else path.open("wb")


@contextmanager
def exclusive(path: Path, patience: float = 3.0, stop: StopFlag | None = None) -> Iterator[None]:
    """Hold the lock on a file or folder; it ends with the process, however that ends.

    The file describes the folder (`config.toml`, `comparison.toml`), so only the holder writes
    there. Waits `patience` seconds for a process that is about to end, or until asked to stop.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    place = path if path.is_dir() else path.parent
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        give_up = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise EvenstreamError(
                        f"another process is working in {place}; wait for it or stop it"
                    ) from None
                if stop is not None and stop.is_set():
                    text = f"stopped while another process is working in {place}"
                    raise Interrupted(text) from None
                time.sleep(0.05)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(file)
