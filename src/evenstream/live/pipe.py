"""Rows from a pipe, in batches that do not wait for ever."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_ROWS_AHEAD = 1024
_TICK_SECONDS = 1.0


def read_lines(descriptor: int) -> Iterator[bytes]:
    """Lines as they arrive; the last one may lack its end."""
    rest = b""
    while chunk := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def timed_batches(items: Iterable[T], size: int, patience: float) -> Iterator[list[T]]:
    """Batches of `size`, or fewer once the first of them has waited for `patience` seconds.

    While nothing arrives, there is an empty one each second, so that the reader can see to other
    things.
    The items are fetched by a thread, which is at most some rows ahead and ends with the process.
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
            batch, end = arrived.get(timeout=_TICK_SECONDS)
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
