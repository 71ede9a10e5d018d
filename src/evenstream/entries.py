"""Reads checkpoints with distrust: a wrong entry is named, whatever error it causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evenstream.errors import CheckpointError, DamagedCheckpoint, UnknownName, shown

_WRONG = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(RuntimeError, TypeError, ValueError),
)
"""Errors raised by a wrong entry; a RecursionError is a RuntimeError."""


@contextmanager
def entry(name: str) -> Iterator[None]:
    """A block that uses an entry of a checkpoint: any failure in it means that the entry is bad.

    Unknown names, such as that of a plugin's method, remain user errors.
    """
    try:
        yield
    except (CheckpointError, UnknownName):
        raise
    except _WRONG as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise DamagedCheckpoint(f"its entry {name!r} cannot be used: {why}") from error


def whole_number(state: Mapping[str, Any], name: str, least: int = 0) -> int:
    """A number in a checkpoint, checked to be whole and within range."""
    value = state[name]
    if type(value) is int and least <= value < 2**63:
        return value
    raise ValueError(f"{name} is {shown(value)}, not a whole number of {least} or more")


def check_fields(instance: Any) -> None:
    """Reject a dataclass with a field of another type than its default, unless that is None."""
    for name, default in vars(type(instance)()).items():
        value = getattr(instance, name)
        if type(default) is int:
            whole_number(vars(instance), name)
        elif type(default) is float:
            if type(value) not in (int, float):
                raise TypeError(f"{name} is {shown(value)}, not a number")
        elif default is not None and type(value) is not type(default):
            raise TypeError(f"{name} is {shown(value)}, not a {type(default).__name__}")
