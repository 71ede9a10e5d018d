"""Numbers, from text and from whatever else is one."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeVar

N = TypeVar("N", int, float)
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def read_number(text: str, kind: type[N]) -> N:
    """The number that a text is; `ValueError` if it is none, or one in Python's eyes only."""
    plain = text.strip()
    check_plain(plain)
    return kind(plain)


def check_plain(text: str) -> None:
    """Refuse what `int` and `float` read as digits, but no table means: 1_000, and other scripts'.

    `ValueError` also for any other text that is not all ASCII.
    """
    if "_" in text or not text.isascii():
        raise ValueError("digits are 0 to 9, with nothing between them")


def plain_number(value: Any) -> int | float | None:
    """The Python number for any real one: NumPy's, a fraction, a tensor without dimensions.

    Checkpoints hold no others. None for what is not a number, booleans included.
    """
    try:
        if getattr(value, "ndim", None) == 0 and not isinstance(value, Real):
            value = value.item()  # of a tensor or an array
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            return None
        return int(value) if isinstance(value, Integral) else float(value)
    except OverflowError:
        return math.inf
    except (RuntimeError, TypeError, ValueError):  # without values; a time span; signalling NaN
        return None
