"""Reads rows from a pipe, in batches that do not wait forever."""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_ROWS_AHEAD = 1024
TICK_SECONDS = 1.0


def first_bytes(descriptor: int, rows: int, seconds: float) -> bytes:
    """The first bytes: `rows` lines after the first, or whatever arrives within `seconds` of it."""
    found, give_up = b"", 0.0
    while found.count(b"\n") <= rows:
        begun = b"\n" in found.lstrip()
        if begun and not _waits(descriptor, give_up - time.monotonic()):
            break
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        found += chunk
        if not begun and b"\n" in found.lstrip():
            give_up = time.monotonic() + min(seconds, threading.TIMEOUT_MAX / 2)
    return found


def _waits(descriptor: int, seconds: float) -> bool:
    """Whether something can be read within this many seconds."""
    try:
        return bool(select.select([descriptor], [], [], max(seconds, 0))[0])
    except OSError:  # unknown for pipes on this system
        return False


def read_lines(descriptor: int, rest: bytes = b"") -> Iterator[bytes]:
    """Lines as they arrive, following `before`; the last one may be incomplete."""
    *lines, rest = rest.split(b"\n")
    for line in lines:
        yield line + b"\n"
    while chunk := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def timed_batches(items: Iterable[T], size: int, patience: float) -> Iterator[list[T]]:
    """Batches of `size` rows, or fewer once the first has waited for `patience` seconds.

    While nothing arrives, there is an empty batch each second, so that the reader can do other
    things. A thread fetches the items; it is at most a few rows ahead and ends with the process.
    """
    arrived: queue.Queue[tuple[list[T], BaseException | None]] = queue.Queue(_ROWS_AHEAD)

    def fetch() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                arrived.put(([item], None))
        except BaseException as error:
            end = error
        arrived.put(([], end or StopIteration()))

    threading.Thread(target=fetch, daemon=True).start()
    end: BaseException | None = None
    while end is None:
        try:
            batch, end = arrived.get(timeout=TICK_SECONDS)
        except queue.Empty:
            yield []
            continue
        give_up = time.monotonic() + min(patience, threading.TIMEOUT_MAX / 2)
        while end is None and len(batch) < size:
            try:
                more, end = arrived.get(timeout=max(give_up - time.monotonic(), 0))
            except queue.Empty:
                break
            batch += more
        if batch:
            yield batch
    if not isinstance(end, StopIteration):
        raise end
