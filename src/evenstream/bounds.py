"""Types of numeric options with bounds: what lies outside is refused before a method is made."""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any

from evenstream.errors import InputError


@dataclass(frozen=True)
class Within:
    """Bounds of a number, both included."""

    least: float
    most: float = math.inf


Count = Annotated[int, Within(0)]
Positive = Annotated[int, Within(1)]
Factor = Annotated[float, Within(0)]
Share = Annotated[float, Within(0, 1)]
Fading = Annotated[float, Within(0, 0.999999)]
"""How much of an average is kept at each step; 1 would keep it as it is for ever."""


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, NumPy's included, and no truth value or time span."""
    return (
        isinstance(value, Integral) and hasattr(value, "__index__") and not isinstance(value, bool)
    )


def check_bounds(instance: Any) -> None:
    """Refuse a field's value outside the bounds of its type."""
    for field, kind in typing.get_type_hints(type(instance), include_extras=True).items():
        for bounds in getattr(kind, "__metadata__", ()):
            if not isinstance(bounds, Within):
                continue
            value = getattr(instance, field)
            if not bounds.least <= value <= bounds.most:
                raise InputError(
                    f"{field} must lie in {bounds.least:g}..{bounds.most:g}, got {value!r}"
                )
