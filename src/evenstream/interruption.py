"""Stops a run from outside without losing a step or leaving one half done."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it, for 50 times the time
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from evenstream.errors import EvenstreamError

Handler = Callable[[int, FrameType | None], object]


class Interrupted(EvenstreamError):
    """The run was stopped by a signal; it has been saved."""


class StopFlag(Protocol):
    """Tells when a run should save and stop (an `Event` of any kind)."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


class Stop(threading.Event):
    """A request to stop; while nothing is `unfinished`, it raises `KeyboardInterrupt`."""

    unfinished = True

    def request(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.is_set() or not self.unfinished:
            raise KeyboardInterrupt
        self.set()


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the step; a second one stops at once."""
    stop = Stop()
    if not _in_main_thread():
        yield stop
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop.request) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SignalsHeld:
    """Postpone all signal handlers to the end of a block that must not be interrupted.

    They run right after it, so whatever they raise (such as `KeyboardInterrupt`) finds the block
    done, or undone by its own error. Where the block calls `let_through`, Ctrl-C raises inside it.

    A single flag says whether they are postponed. While it is False, the stand-in handlers do what
    the real ones would, so it does not matter if one raises while they are being swapped.
    """

    def __init__(self) -> None:
        self._on = False
        self._waiting: list[tuple[int, FrameType | None]] = []
        self._handlers: dict[int, Handler] = {}

    def __enter__(self) -> None:
        global _held
        if _held is not None or not _in_main_thread():  # handlers run only in the main thread
            return
        found = zip(_SIGNALS, map(_signal.getsignal, _SIGNALS), strict=True)
        self._handlers = {n: _real(n, handler) for n, handler in found if callable(handler)}
        try:
            for number in self._handlers:
                _signal.signal(number, self._stand_in)
            self._on = True
        except BaseException:  # by one that is not swapped yet
            self._give_back()
            raise
        _held = self

    def _stand_in(self, number: int, frame: FrameType | None) -> None:
        if self._on:
            self._waiting.append((number, frame))
        else:
            self._handlers[number](number, frame)

    def let_through(self) -> None:
        """Run handlers that only request a stop; others might see an unfinished state."""
        for each in list(self._waiting):
            handler = self._handlers[each[0]]
            if handler is signal.default_int_handler or _is_request(handler):
                self._waiting.remove(each)
                handler(*each)

    def __exit__(self, *_: object) -> None:
        global _held
        if not self._on:
            return
        _held = None
        try:
            self._give_back()
        finally:
            self._on = False
            if self._waiting:
                self._deliver()

    def _give_back(self) -> None:
        try:
            for number, handler in self._handlers.items():
                if _signal.getsignal(number) == self._stand_in:  # not replaced since
                    _signal.signal(number, handler)
        except BaseException:  # by one that is restored before the others
            self._give_back()
            raise

    def _deliver(self) -> None:
        raised = None
        while self._waiting:
            number, frame = self._waiting.pop(0)
            try:
                self._handlers[number](number, frame)
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised


def let_through() -> None:
    """Let Ctrl-C raise inside `SignalsHeld`, at a point where the block can undo itself."""
    if _held is not None and _in_main_thread():
        _held.let_through()


_SIGNALS = tuple(map(int, signal.valid_signals()))
_held: SignalsHeld | None = None


def _real(number: int, handler: Handler) -> Handler:
    """The real handler, not a stand-in, which several simultaneous signals may leave behind."""
    owner = getattr(handler, "__self__", None)
    return _real(number, owner._handlers[number]) if isinstance(owner, SignalsHeld) else handler


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_request(handler: Handler) -> bool:
    return isinstance(getattr(handler, "__self__", None), Stop)
