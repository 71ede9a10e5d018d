"""Files that are whole or not there, and folders that one process at a time works in."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenstream.errors import EvenstreamError, InputError, shown
from evenstream.interruption import Interrupted, StopFlag

TEMPORARY = ".tmp"


def safe_name(text: str) -> str:
    """The name of a method, or the last part of a stream's, as the name of a file."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", text.rpartition("/")[2])


def as_path(text: str) -> Path | None:
    """The path that is meant, or None for what looks like a name."""
    if not text:
        return None
    path = Path(text).expanduser()
    return path if path.suffix or len(path.parts) > 1 or path.exists() else None


def given_path(what: str, path: Any) -> Path:
    """What a user gave as a path; refuses what cannot be one."""
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
    raise InputError(f"{what} must be a path, and {shown(path)} is none: {why}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves the old content or the new, never half of it."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write instead of `path`; it takes its place when the block has ended well."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def exclusive(path: Path, patience: float = 3.0, stop: StopFlag | None = None) -> Iterator[None]:
    """Hold the lock on a file or a folder; it goes with the process, however that ends.

    The file says what a folder is for (`config.toml`, `comparison.toml`), so whoever holds it is
    the only one to write there. Waits `patience` seconds for a process that is about to end, or
    until it is asked to stop.
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
                        f"another process is at work in {place}; wait for it or stop it"
                    ) from None
                if stop is not None and stop.is_set():
                    text = f"stopped while another process is at work in {place}"
                    raise Interrupted(text) from None
                time.sleep(0.05)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(file)
