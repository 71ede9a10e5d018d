"""A table of a sweep in the terminal, however many columns it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

LINES = 3
"""Places that a column needs beside its text: a line and two spaces."""
LONG = 24
"""Longer heads of columns are broken."""


@dataclass(frozen=True)
class FittedTable:
    """Cut into several tables where it is too wide for the screen; each repeats the rows' names."""

    title: str
    heads: Sequence[str]
    """What the rows are named by."""
    names: Sequence[Sequence[str]]
    """The names of each row, one for each of the `heads`."""
    columns: Sequence[tuple[str, Sequence[Text]]]
    """The head of each further column, and its cells."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        each = max(options.max_width // (2 * len(self.heads)) - LINES, 1)
        by_head = zip(self.heads, zip(*self.names, strict=True), strict=True)
        named = sum(min(_width([head, *names]), each) + LINES for head, names in by_head)
        yield Text(self.title, "italic")
        for part in self._parts(options.max_width - named - 1):
            table = Table()
            for head in self.heads:
                table.add_column(Text(head), overflow="fold", max_width=each)
            for head, _, width in part:
                table.add_column(Text(head), justify="right", overflow="fold", max_width=width)
            for row, name in enumerate(self.names):
                table.add_row(*map(Text, name), *(cells[row] for _, cells, _ in part))
            yield table

    def _parts(self, room: int) -> Iterator[list[tuple[str, Sequence[Text], int]]]:
        """The columns with their widths, as many at a time as there is room for."""
        part: list[tuple[str, Sequence[Text], int]] = []
        left = room
        for head, cells in self.columns:
            width = max(min(_width([head]), LONG), _width([cell.plain for cell in cells]))
            width = min(width, max(room - LINES, 1))
            if part and width + LINES > left:
                yield part
                part, left = [], room
            part.append((head, cells, width))
            left -= width + LINES
        yield part


def _width(texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(line) for text in texts for line in (*text.splitlines(), ""))
