"""Tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable

from evenstream.report.experiments.layout import printed_table, tables
from evenstream.report.experiments.outcome import Outcome
from evenstream.report.experiments.verdicts import RULE
from evenstream.report.experiments.wording import source_words
from evenstream.report.table import Table


def escape(text: object) -> str:
    """Text that Markdown shows as it is."""
    line = " ".join(str(text).split())
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", line)


def outcome_text(outcome: Outcome) -> str:
    """The file of one experiment."""
    experiment, background = outcome.experiment, outcome.background
    source = f" ({escape(source_words(experiment))})" if experiment.source else ""
    parts = [f"# {escape(experiment.name)}: {escape(experiment.title)}{source}"]
    parts += [table_text(table) for table in tables(outcome)]
    if any(each.comparisons for each in outcome.measured):
        parts.append(f"{escape(RULE)}")
    parts += ["\n".join(f"- {escape(note)}" for note in background.notes)]
    printed = printed_table(outcome)
    if printed is not None:
        parts.append(table_text(printed))
    if background.command:
        parts.append(f"`{background.command}` makes the runs that are missing.")
    return "\n\n".join(part for part in parts if part) + "\n"


def lines_of(table: Table, head: Callable[[str], str] = escape) -> str:
    """The lines of a table; `head` makes Markdown of what names a row."""
    rules = [":--" if column.left else "--:" for column in table.heads]
    rows = [
        [head(text) if column.head else escape(text)
         for column, text in zip(table.heads, row, strict=True)]
        for row in table.rows
    ]  # fmt: skip
    lines = (map(escape, table.columns), rules, *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def table_text(table: Table) -> str:
    """A table under its title."""
    scale = f", at scale {table.scale}" if table.scale else ""
    parts = [f"## {table.title}{escape(scale)}", escape(table.caption), lines_of(table)]
    return "\n\n".join(part for part in parts if part)
