"""One thing at a time, so that several threads may use a learner, and several learners a process.

Whoever takes both locks takes the process's first: no two threads then wait for each other.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import torch

from evenstream.interruption import SignalsHeld

F = TypeVar("F", bound=Callable[..., Any])
"""A method, which keeps its type: type checkers do not look through a `Callable` at a setter."""

GLOBAL_GENERATOR = RLock()
"""Held by the one learner that PyTorch's global generator belongs to while it makes a step."""


class Lock(RLock):  # type: ignore[misc]  # typeshed has it final, Python has not
    """A learner's own; a copy of a learner gets a new one.

    Being C code, `with lock` leaves no moment at which an interrupt finds it taken for ever.
    """

    def __init__(self) -> None:
        _locks[id(self)] = self

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread holds it."""
        return bool(self._is_owned())  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


class Locked(Protocol):
    """A learner, as far as its lock goes."""

    lock: Lock


_locks: WeakValueDictionary[int, Lock] = WeakValueDictionary()
_at_fork: list[Lock] = []


def one_at_a_time(function: F) -> F:
    """For what reads a learner's state: other threads wait until it is done."""

    @wraps(function)
    def locked(learner: Locked, /, *args: Any, **kwargs: Any) -> Any:
        with learner.lock:
            return function(learner, *args, **kwargs)

    return cast(F, locked)


def one_step_at_a_time(function: F) -> F:
    """For what makes a step: other learners wait, too, and so do the handlers of signals."""

    @wraps(function)
    def locked(learner: Locked, /, *args: Any, **kwargs: Any) -> Any:
        with GLOBAL_GENERATOR, learner.lock, SignalsHeld():
            set_kernel_threads()
            return function(learner, *args, **kwargs)

    return cast(F, locked)


def set_kernel_threads() -> None:
    """Let matrix products use as many threads as `torch.set_num_threads` said.

    OpenMP has a number of its own for each Python thread, and PyTorch sets it when it is first
    asked there, which a matrix product alone does not do.
    """
    torch.get_num_threads()


def _wait_for_all() -> None:
    """Before a fork: a child must not get a learner that another thread has half changed."""
    GLOBAL_GENERATOR.acquire()
    for reference in _locks.valuerefs():  # in one go, whatever other threads make or drop
        lock = reference()
        if lock is not None:
            lock.acquire()
            _at_fork.append(lock)


def _go_on() -> None:
    while _at_fork:
        _at_fork.pop().release()
    GLOBAL_GENERATOR.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_wait_for_all, after_in_parent=_go_on, after_in_child=_go_on)
