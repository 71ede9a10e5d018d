"""Numbers written as text."""

from __future__ import annotations

from typing import TypeVar

N = TypeVar("N", int, float)


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
