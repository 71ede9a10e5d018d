"""What a checkpoint holds, read with distrust: a wrong entry is named, whatever it makes fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evenstream.errors import CheckpointError, DamagedCheckpoint, UnknownName, shown

_WRONG = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(RuntimeError, TypeError, ValueError),
)
"""What using a wrong entry raises; a RecursionError is a RuntimeError."""


@contextmanager
def entry(name: str) -> Iterator[None]:
    """A block that uses an entry of a checkpoint: what fails there fails because the entry is bad.

    Names that are not known here, as that of a plugin's method, stay the user's error.
    """
    try:
        yield
    except (CheckpointError, UnknownName):
        raise
    except _WRONG as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise DamagedCheckpoint(f"its entry {name!r} cannot be used: {why}") from error


def whole_number(state: Mapping[str, Any], name: str, least: int = 0) -> int:
    """A number in a checkpoint, found to be whole and not too small or too large."""
    value = state[name]
    if type(value) is int and least <= value < 2**63:
        return value
    raise ValueError(f"{name} is {shown(value)}, not a whole number of {least} or more")


def check_fields(instance: Any) -> None:
    """Refuse a dataclass with a field of another kind than its default, which is not None."""
    for name, default in vars(type(instance)()).items():
        value = getattr(instance, name)
        if type(default) is int:
            whole_number(vars(instance), name)
        elif type(default) is float:
            if type(value) not in (int, float):
                raise TypeError(f"{name} is {shown(value)}, not a number")
        elif default is not None and type(value) is not type(default):
            raise TypeError(f"{name} is {shown(value)}, not a {type(default).__name__}")
