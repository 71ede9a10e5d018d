"""A table of text, which every kind of file, the pages and the terminal can write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["grid", "list", "detail", "overview", "stack", "plain"]
"""Cells by row and column; a row for each thing; the same, saying more about what a grid shows; a
list of links; rows that become small lists on narrow screens; numbers behind something else."""

OR = " or "
"""Between numbers of which the paper prints more than one."""


@dataclass(frozen=True)
class Column:
    """What is known of a column beside its cells."""

    name: str
    left: bool = False
    """Words, which begin at the left; numbers end at the right."""
    head: bool = False
    """Names the row."""
    kind: str = ""
    """Of its cells, for the style sheet."""
    note: str = ""
    """Below the name: the unit, and which numbers are good."""
    terminal: str = ""
    """Name and note in the terminal, which has little room, if they are others there."""
    said: Callable[[str], str] | None = None
    """What the caption says in its place if all rows have the same; None to keep the column."""
    printed: bool = True
    """Whether LaTeX has room for it; the caption sums up what it leaves out."""


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    caption: str
    heads: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    scale: str = ""
    """In words, with all that is different from the experiment's own; part of every caption."""
    marks: tuple[str, ...] = ()
    """The verdict of each row, for its colour; nothing is said by the colour alone."""
    kind: Kind = "list"
    made: str = ""
    """How long runs took, on what and with which code, for files without room for such columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.heads)

    def taken(self, places: Sequence[int]) -> Table:
        """Some of the columns."""
        return replace(
            self,
            heads=tuple(self.heads[place] for place in places),
            rows=tuple(tuple(row[place] for place in places) for row in self.rows),
        )
