"""Types of options and bounds of numbers, checked before a method is created."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any, Literal

import numpy as np

from evenstream.errors import InputError, shown
from evenstream.numerals import plain_number


@dataclass(frozen=True)
class Within:
    """Inclusive bounds of a number."""

    least: float
    most: float = math.inf


Count = Annotated[int, Within(0)]
Positive = Annotated[int, Within(1)]
Factor = Annotated[float, Within(0)]
Share = Annotated[float, Within(0, 1)]
Fading = Annotated[float, Within(0, 0.999999)]
"""Share of an average kept at each step; 1 would never change it."""


def is_whole(value: Any) -> bool:
    """Whether it is an integer, including NumPy's, but not a boolean or time span."""
    return (
        isinstance(value, Integral) and hasattr(value, "__index__") and not isinstance(value, bool)
    )


def check_options(instance: Any) -> None:
    """Convert the options of a dataclass to their types; rejects values that do not fit.

    NumPy numbers, fractions and 0-d tensors become plain numbers, which can be saved. Fields of
    types other than bool, int, float and Literal are left unchanged.
    """
    cls: type = type(instance)
    for name, kind, bounds, default in _options(cls):
        given = getattr(instance, name)
        if given is default:
            continue
        object.__setattr__(instance, name, _fitting(name, kind, bounds, given))  # also if frozen


def _fitting(name: str, kind: Any, bounds: Within | None, given: Any) -> Any:
    """The value converted to its type; rejects one that does not fit."""
    value = _as(kind, given)
    if value is None:
        raise InputError(f"{name} must be {_wording(kind)}, got {shown(given)}")
    if bounds is not None and not bounds.least <= value <= bounds.most:
        raise InputError(
            f"{name} must lie in {bounds.least:g}..{bounds.most:g}, got {shown(given)}"
        )
    return value


@functools.cache  # evaluating annotations is slow
def _options(cls: type) -> list[tuple[str, Any, Within | None, Any]]:
    """Name, type, bounds and default of each field that can be checked; rejects bad defaults."""
    plain, full = typing.get_type_hints(cls), typing.get_type_hints(cls, include_extras=True)
    found: list[tuple[str, Any, Within | None, Any]] = []
    for field in dataclasses.fields(cls):
        kind = plain[field.name]
        if kind in (bool, int, float) or typing.get_origin(kind) is Literal:
            extras = getattr(full[field.name], "__metadata__", ())
            usual = Within(-math.inf) if kind in (int, float) else None  # NaN lies within no bounds
            bounds = next((each for each in extras if isinstance(each, Within)), usual)
            if field.default is not dataclasses.MISSING:
                _fitting(f"the default of {cls.__name__}.{field.name}", kind, bounds, field.default)
            found.append((field.name, kind, bounds, field.default))
    return found


def _as(kind: Any, value: Any) -> Any:
    """The value converted to this type; None if it does not fit."""
    if typing.get_origin(kind) is Literal:
        return value if isinstance(value, str) and value in typing.get_args(kind) else None
    if kind is bool:
        return bool(value) if isinstance(value, (bool, np.bool_)) else None
    number = plain_number(value)
    if isinstance(number, int):
        return kind(number) if abs(number) < 2**63 else None
    return None if kind is int or number is None or math.isnan(number) else number


def _wording(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    return {bool: "True or False", int: "a whole number of 63 bits at most"}.get(kind, "a number")
