"""Reads samples of a data set in the order a stream needs them, wherever they are kept."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from evenstream.data.dataset import Inputs
from evenstream.data.image_files import ImageFiles
from evenstream.data.samples import Indices, Read

BYTES_AHEAD = 64 << 20  # of decoded images waiting for the learner: 340 of 256 pixels
_MOST_THREADS = 8

T = TypeVar("T")


def read_in_order(x: Inputs, wanted: Iterable[Indices]) -> Iterator[Read]:
    """Read groups of samples, one `Read` for each, in order.

    Threads decode files ahead of time. The result does not depend on their timing: an unreadable
    file is reported with its group. The threads end with the iteration, however it ends.
    """
    if isinstance(x, np.ndarray):
        for rows in wanted:
            yield Read(rows, x[rows])
    else:
        yield from _read_ahead(x, wanted)


def _read_ahead(files: ImageFiles, wanted: Iterable[Indices]) -> Iterator[Read]:
    groups, upcoming = itertools.tee(wanted)
    rows = (row for group in upcoming for row in group.tolist())
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    ahead = max(BYTES_AHEAD // (3 * files.size**2), threads)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="evenstream-decode")
    try:
        loaded = _map_ahead(pool, files.load, rows, ahead)
        for group in groups:
            yield files.collect(group, itertools.islice(loaded, len(group)))
    finally:
        pool.shutdown(cancel_futures=True)


def _map_ahead(
    pool: ThreadPoolExecutor, function: Callable[[int], T], items: Iterable[int], ahead: int
) -> Iterator[T]:
    """Results in the order of the items, with at most `ahead` of them computed or in progress."""
    pending: deque[Future[T]] = deque()
    for item in items:
        pending.append(pool.submit(function, item))
        if len(pending) == ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
