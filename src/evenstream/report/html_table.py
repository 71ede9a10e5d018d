"""Tables on pages."""

from __future__ import annotations

from collections.abc import Callable

from evenstream.report.html import escape, lines
from evenstream.report.table import OR, Column, Table

_WORDY = 40
"""Characters beyond which the text of a cell is broken into lines."""


def html_table(table: Table, head: Callable[[str], str] = escape) -> str:
    """A table; `head` makes HTML of what names a row.

    Its caption is in it only if it is not about experiments, whose tables are wide.
    """
    stack, bare = table.kind == "stack", table.kind in ("stack", "plain")

    def tag(name: str, role: str) -> str:
        """What is displayed as a block is no table any more to a screen reader without roles."""
        return f'{name} role="{role}"' if stack else name

    kinds = {"stack": ' class="stack"', "plain": ""}
    kind = kinds.get(table.kind, f' class="tables {table.kind}"')
    caption = f"<caption>{escape(table.caption)}</caption>" if bare and table.caption else ""
    heads = "".join(
        f'<{tag("th", "columnheader")} scope="col"{_class(column)}>{escape(column.name)}'
        f"{column.note and f'<small>{escape(column.note)}</small>'}</th>"
        for column in table.heads
    )
    rows = []
    for place, row in enumerate(table.rows):
        mark = table.marks[place] if table.marks else ""
        cells = "".join(
            f'<{tag("th", "rowheader")} scope="row"{_class(column)}>{head(text)}</th>'
            if column.head
            else f'<td role="cell" data-label="{escape(str(column.name))}">'
            f'<span class="nowrap">{escape(text)}</span></td>'
            if stack
            else f"<td{_class(column, text)}>{_alternatives(text)}</td>"
            for column, text in zip(table.heads, row, strict=True)
        )
        own = f' class="{mark}"' if mark in ("better", "worse", "best") else ""
        rows.append(f"<{tag('tr', 'row')}{own}>{cells}</tr>")
    top = f"<{tag('thead', 'rowgroup')}><{tag('tr', 'row')}>{heads}</tr></thead>"
    return (
        f"<{tag('table', 'table')}{kind}>{caption}{top if any(table.columns) else ''}"
        f"<{tag('tbody', 'rowgroup')}>\n{lines(rows)}\n</tbody></table>"
    )


def _alternatives(text: str) -> str:
    """Text of a cell; where the paper prints two numbers, it may break around them."""
    parts = [part.partition(" (") for part in text.split(OR)]
    if len(parts) == 1:
        return escape(text)
    return OR.join(
        f'<span class="nowrap">{escape(number)}</span>{escape(bracket + where)}'
        for number, bracket, where in parts
    )


def _class(column: Column, text: str = "") -> str:
    names = ["left"] if column.left else []
    names += [column.kind] if column.kind else []
    if (OR in text or len(text) > _WORDY) and column.kind != "wrap":
        names.append("wrap")
    return f' class="{" ".join(names)}"' if names else ""
