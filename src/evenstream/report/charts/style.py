"""Distinguishes methods: colours for light and dark pages, markers and dashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Colours = Mapping[str, str]


class Drawn(Protocol):
    """Something with its own colour and marker, by its position among the others."""

    @property
    def index(self) -> int:
        """The position."""
        ...


METHOD_COLOURS = 8
"""Number of colours; a ninth method starts over with dashed lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
"""One marker for each colour, so that lines can be distinguished without colours."""

LIGHT: dict[str, str] = {
    "ink": "#1b2430",
    "muted": "#566273",
    "grid": "#e3e7ee",
    "surface": "#ffffff",
    "heat": "#1b5e9e",
    "cell-low": "#1b2430",
    "cell-mid": "#0c1420",
    "cell-high": "#ffffff",
    "m0": "#0072b2",
    "m1": "#d55e00",
    "m2": "#00805c",
    "m3": "#b5468b",
    "m4": "#8a6a00",
    "m5": "#2a9fd8",
    "m6": "#6b7280",
    "m7": "#6a3fb5",
}
DARK: dict[str, str] = {
    "ink": "#e8ecf2",
    "muted": "#a3aebd",
    "grid": "#2c3542",
    "surface": "#171d26",
    "heat": "#79b8ff",
    "cell-low": "#ffffff",
    "cell-mid": "#0c1420",
    "cell-high": "#0c1420",
    "m0": "#4aa8e8",
    "m1": "#ff8f4a",
    "m2": "#3ecf9f",
    "m3": "#f09ccb",
    "m4": "#e3bf45",
    "m5": "#9bdcff",
    "m6": "#b4bcc8",
    "m7": "#b79cf7",
}


def colour(series: Drawn) -> str:
    """Return the name of a method's colour."""
    return f"m{series.index % METHOD_COLOURS}"


def marker(series: Drawn) -> str:
    """Return a method's marker, as matplotlib calls it."""
    return MARKERS[series.index % METHOD_COLOURS]


def dashes(series: Drawn) -> tuple[float, ...]:
    """Return a method's dashes and gaps: none for the first eight, then dashed, then dotted."""
    return ((), (5, 2), (1.5, 1.5))[series.index // METHOD_COLOURS % 3]


def line_style(series: Drawn) -> Any:
    """Return a method's dashes in matplotlib's form."""
    return (0, dashes(series)) if dashes(series) else "-"
