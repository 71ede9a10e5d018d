"""The page of a report: every experiment with its tables and figures in one HTML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import resources

from evenstream.errors import count, some_of
from evenstream.report.experiments.contents import Contents, Further
from evenstream.report.experiments.figures import figures
from evenstream.report.experiments.layout import printed_table, tables
from evenstream.report.experiments.outcome import Outcome
from evenstream.report.experiments.verdicts import RULE
from evenstream.report.experiments.wording import source_words
from evenstream.report.frame import frame, header
from evenstream.report.html import bullets, card, code, details, escape, lines, scroll
from evenstream.report.html_table import html_table
from evenstream.report.table import Table
from evenstream.text import split_options

_LISTED = 200
"""Runs that belong nowhere beyond which the page names no more."""


def page(contents: Contents) -> str:
    """The whole page."""
    style = resources.files("evenstream.report.experiments").joinpath("experiments.css")
    top = header(contents.title, escape(contents.lead))
    return frame(contents.title, top, _sections(contents), style.read_text(encoding="utf-8"))


def _sections(contents: Contents) -> str:
    parts = [_summary(contents.summary), _overview(contents), *map(_experiment, contents.with_runs)]
    parts += [_missing(contents.without_runs), *map(_further, contents.further)]
    parts.append(_leftovers(contents))
    return lines([part for part in parts if part])


def _summary(table: Table | None) -> str:
    return card("summary", table.title, _html(table)) if table else ""


def _overview(contents: Contents) -> str:
    """What there is, and how to read it."""
    table = contents.overview_table()
    if not table.rows:
        return ""
    rule = f'<p class="quiet">{escape(RULE)}</p>' if contents.compared else ""
    return card("overview", table.title, f"{_html(table, _link)}\n{rule}")


def _link(name: str) -> str:
    return f'<a href="#experiment-{escape(name)}">{escape(name)}</a>'


def _experiment(outcome: Outcome) -> str:
    """The card of an experiment with runs."""
    experiment, background = outcome.experiment, outcome.background
    parts = [_source(outcome)]
    parts += [_block(outcome, table) for table in tables(outcome)]
    parts += [figures(outcome), _notes(background.notes), _printed(outcome), _command(outcome)]
    title = f"{escape(experiment.title)} <small class=quiet>{escape(experiment.name)}</small>"
    return card(f"experiment-{experiment.name}", title, lines([part for part in parts if part]))


def _source(outcome: Outcome) -> str:
    source, by = source_words(outcome.experiment), outcome.background.by
    where = f"In {by}: {source}" if by else f"Reproduces: {source}"
    return f'<p class="quiet">{escape(where)}</p>' if source else ""


def _block(outcome: Outcome, table: Table) -> str:
    if table.kind == "detail":
        what = f"{table.title} at scale {table.scale}: {count(len(table.rows), 'row')} with "
        return details(f"{what}intervals, times and machines", _html(table))
    own = split_options(table.scale)[0] == outcome.experiment.base
    kind = "scale-label" if own else "scale-label smaller"
    label = f'<span class="{kind}">{escape(table.scale)}</span>' if table.scale else ""
    return f'<div class="block"><h3>{escape(table.title)} {label}</h3>\n{_html(table)}</div>'


def _html(table: Table, head: Callable[[str], str] = escape) -> str:
    """A table that scrolls in its own box where it is too wide."""
    # The caption is above the box and not in it, or it would scroll away with a wide table.
    caption = f'<p class="quiet caption">{escape(table.caption)}</p>\n' if table.caption else ""
    return caption + scroll(html_table(table, head), f"{table.title}, {table.scale}".rstrip(", "))


def _notes(notes: Sequence[str]) -> str:
    """Remarks as a list; what stands between backticks is code."""
    texts = (re.sub("`([^`]+)`", r"<code>\1</code>", escape(note)) for note in notes)
    return bullets(list(texts), "notes") if notes else ""


def _printed(outcome: Outcome) -> str:
    table = printed_table(outcome)
    if table is None:
        return ""
    return details(f"{table.title}: {count(len(table.rows), 'number')}", _html(table))


def _command(outcome: Outcome) -> str:
    command = outcome.background.command
    if not command:
        return ""
    return f'<p class="quiet command">Missing runs: <code>{escape(command)}</code></p>'


def _missing(outcomes: Sequence[Outcome]) -> str:
    """Experiments without a run: what would make them, and what is printed."""
    if not outcomes:
        return ""
    items = [
        f'<li id="experiment-{escape(o.experiment.name)}"><p>{escape(o.experiment.title)} '
        f"<small class=quiet>{escape(o.experiment.name)}</small></p>"
        f"{f'<p>{code(o.background.command)}</p>' if o.background.command else ''}"
        f"{_printed(o)}{_notes(o.background.notes)}</li>"
        for o in outcomes
    ]
    return card("not-run", "Not run yet", f'<ul class="missing">\n{lines(items)}\n</ul>')


def _further(entry: Further) -> str:
    parts = [
        f'<p class="quiet">{escape(entry.text)}</p>',
        _html(entry.table) if entry.table is not None else "",
        entry.html,
        _notes(entry.notes),
    ]
    title = f"{escape(entry.title)} <small class=quiet>{escape(entry.name)}</small>"
    return card(f"experiment-{entry.name}", title, lines([part for part in parts if part]))


def _leftovers(contents: Contents) -> str:
    """What was found and is in no table."""
    parts = []
    if contents.search.problems:
        items = [escape(problem) for problem in contents.search.problems]
        parts.append(details(f"{count(len(items), 'folder')} left out", bullets(items)))
    if contents.unplaced:
        places = [
            f"{code(run.config.method)} on {code(run.config.stream)}, seed "
            f"{run.config.seed}: {escape(run.run.directory)}"
            for run in contents.unplaced[:_LISTED]
        ]
        n = count(len(contents.unplaced), "run")
        parts.append(details(f"{n} with settings of no cell", bullets(places)))
    said = contents.remarks()
    if said:
        parts.insert(0, f'<p class="quiet">{escape(some_of(said))}</p>')
    return card("leftovers", "Not in the tables", lines(parts)) if parts else ""
