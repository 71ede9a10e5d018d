"""Numbers from text and from other types."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeVar

N = TypeVar("N", int, float)
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def read_number(text: str, kind: type[N]) -> N:
    """Parse text as a number; raises `ValueError` otherwise, even if Python would accept it."""
    plain = text.strip()
    check_plain(plain)
    return kind(plain)


def check_plain(text: str) -> None:
    """Reject digits that only Python would accept: 1_000, and those of other scripts.

    Also raises `ValueError` for any other non-ASCII text.
    """
    if "_" in text or not text.isascii():
        raise ValueError("digits are 0 to 9, with nothing between them")


def plain_number(value: Any) -> int | float | None:
    """The Python number for any real number: NumPy's, a fraction, a 0-d tensor.

    Checkpoints hold no others. None for anything else, including booleans.
    """
    try:
        if getattr(value, "ndim", None) == 0 and not isinstance(value, Real):
            value = value.item()  # a tensor or an array
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            return None
        return int(value) if isinstance(value, Integral) else float(value)
    except OverflowError:
        return math.inf
    except (RuntimeError, TypeError, ValueError):  # without values; a time span; signalling NaN
        return None
