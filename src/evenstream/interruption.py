"""Stopping a run from outside without losing a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from evenstream.errors import EvenstreamError


class Interrupted(EvenstreamError):
    """The run was stopped by a signal; it has been saved."""


class StopFlag(Protocol):
    """Something that says when a run should save and stop (an `Event` of any kind)."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


class Stop(threading.Event):
    """A request to stop; while nothing is `unfinished`, it is made by a `KeyboardInterrupt`."""

    unfinished = True


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the step; twice stops at once."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(number: int, frame: FrameType | None) -> None:
        if stop.is_set() or not stop.unfinished:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
