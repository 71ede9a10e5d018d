"""Tables in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenstream.report.table import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable


def terminal_table(table: Table) -> RichTable:
    """A table whose numbers keep their lines; an interval stands below its mean."""
    from rich.table import Table as RichTable
    from rich.text import Text

    found = RichTable(title=table.title, title_justify="left", show_lines=table.kind == "plain")
    for column in table.heads:
        heading = Text(column.terminal or f"{column.name}\n{column.note}".strip())
        if column.head:
            found.add_column(heading, overflow="fold")
        elif column.left:
            found.add_column(heading, min_width=10, max_width=13)
        else:
            found.add_column(heading, justify="right", no_wrap=True)
    for row in table.rows:
        found.add_row(*(Text(str(text).replace(" [", "\n[")) for text in row))
    return found
