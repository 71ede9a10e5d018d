"""A table of text, which every kind of file can write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evenstream.report.experiments.wording import key_words
from evenstream.sweep.experiment import Value

Kind = Literal["grid", "list", "detail"]
"""Cells by row and column; a row for each thing; the same, saying more about what a grid shows."""

OR = " or "
"""Between numbers of which the paper prints more than one."""


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    scale: str
    """In words, with all that is different from the experiment's own; part of every caption."""
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()
    """The verdict of each row, for its colour; nothing is said by the colour alone."""
    left: frozenset[int] = field(default_factory=frozenset)
    """Columns of words."""
    heads: int = 1
    """How many columns, at the left, name the row."""
    kind: Kind = "list"
    made: str = ""
    """How long runs took, on what and with which code, for files without room for such columns."""


def all_cells(fixed: Mapping[str, Value]) -> str:
    """What all cells of a table have in common, in a sentence; empty if there is nothing."""
    words = ", ".join(key_words(key, value) for key, value in fixed.items())
    return f"All cells here: {words}." if words else ""
