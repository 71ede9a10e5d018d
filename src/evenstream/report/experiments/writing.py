"""Writes a report of tables: Markdown, CSV and LaTeX for each experiment, and one page for all."""

from __future__ import annotations

import re
from pathlib import Path

from evenstream.report.experiments.contents import Contents, Further
from evenstream.report.experiments.latex import outcome_tex, tables_tex
from evenstream.report.experiments.markdown import escape, lines_of, outcome_text, table_text
from evenstream.report.experiments.page import page
from evenstream.report.experiments.report_folder import write_folder
from evenstream.report.experiments.tidy_csv import outcome_csv, table_csv
from evenstream.report.experiments.verdicts import RULE

PAGE = "index.html"


def write_tables(contents: Contents, out: Path) -> Path:
    """Write everything into a folder that is new or holds a report; returns the page's path."""
    files = {}
    for outcome in contents.outcomes:
        name = outcome.experiment.name
        files[f"{name}.md"] = outcome_text(outcome)
        if outcome.cells or outcome.failures or outcome.not_run():  # or there is no table
            files[f"{name}.csv"] = outcome_csv(outcome)
            files[f"{name}.tex"] = outcome_tex(outcome)
    for entry in contents.further:
        if entry.table is not None:
            files[f"{entry.name}.md"] = _further(entry)
            files[f"{entry.name}.csv"] = table_csv(entry.table)
            files[f"{entry.name}.tex"] = tables_tex(entry.name, entry.title, [entry.table])
    files["index.md"] = _index(contents)
    files[PAGE] = page(contents)
    write_folder(out, files)
    return out / PAGE


def _further(entry: Further) -> str:
    """The file of something that needs no runs."""
    parts = [f"# {escape(entry.name)}: {escape(entry.title)}", escape(entry.text)]
    parts += [] if entry.table is None else [table_text(entry.table)]
    parts += ["\n".join(f"- {escape(note)}" for note in entry.notes)] if entry.notes else []
    return "\n\n".join(parts) + "\n"


def _deeper(text: str, levels: int) -> str:
    """The same as a part of another file."""
    return re.sub(r"^(#+) ", rf"{'#' * levels}\1 ", text, flags=re.M).rstrip()


def _index(contents: Contents) -> str:
    """The list of all experiments."""
    parts = [f"# {escape(contents.title)}", escape(contents.lead)]
    parts += [table_text(contents.summary)] if contents.summary else []
    overview = contents.overview_table()
    parts += [lines_of(overview, lambda name: f"[{name}]({name}.md)")] if overview.rows else []
    if contents.compared:
        parts.append(escape(RULE))
    if contents.without_runs:
        parts.append("## Not run yet")
        for outcome in contents.without_runs:
            parts.append(_deeper(outcome_text(outcome), 2))
    for entry in contents.further:
        parts.append(_deeper(_further(entry), 1))
    said = [*contents.remarks(), *contents.search.problems]
    if contents.unplaced:
        said.append(f"{len(contents.unplaced)} runs have the settings of no cell")
    if said:
        parts.append("## Not in the tables\n\n" + "\n".join(f"- {escape(line)}" for line in said))
    return "\n\n".join(parts) + "\n"
