"""Locks that let several threads use a learner, and several learners share a process.

To avoid deadlocks, code that needs both locks takes the process's first.
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
"""A method that keeps its type: type checkers do not see a setter through a `Callable`."""

GLOBAL_GENERATOR = RLock()
"""Held during a step by the learner that owns PyTorch's global generator."""


class Lock(RLock):  # type: ignore[misc]  # typeshed has it final, Python has not
    """A learner's own lock; a copy of a learner gets a new one.

    Since `with lock` is C code, an interrupt can never leave it locked forever.
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
    """A learner, reduced to its lock."""

    lock: Lock


_locks: WeakValueDictionary[int, Lock] = WeakValueDictionary()
_at_fork: list[Lock] = []


def one_at_a_time(function: F) -> F:
    """Decorates methods that read a learner's state: other threads wait until they are done."""

    @wraps(function)
    def locked(learner: Locked, /, *args: Any, **kwargs: Any) -> Any:
        with learner.lock:
            return function(learner, *args, **kwargs)

    return cast(F, locked)


def one_step_at_a_time(function: F) -> F:
    """Decorates methods that make a step: other learners and signal handlers wait too."""

    @wraps(function)
    def locked(learner: Locked, /, *args: Any, **kwargs: Any) -> Any:
        with GLOBAL_GENERATOR, learner.lock, SignalsHeld():
            set_kernel_threads()
            return function(learner, *args, **kwargs)

    return cast(F, locked)


def set_kernel_threads() -> None:
    """Let matrix products use as many threads as set by `torch.set_num_threads`.

    OpenMP has a separate number for each Python thread. PyTorch sets it when first queried there,
    which a matrix product alone does not trigger.
    """
    torch.get_num_threads()


def _wait_for_all() -> None:
    """Before a fork: a child must not inherit a learner that another thread is changing."""
    GLOBAL_GENERATOR.acquire()
    for reference in _locks.valuerefs():  # atomically, whatever other threads create or drop
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
