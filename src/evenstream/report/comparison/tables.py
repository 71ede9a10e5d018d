"""The tables of a comparison, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from evenstream.measures import AREA, COST, ENTRIES, Metric
from evenstream.report.comparison.summary import (
    MethodSummary,
    Summary,
    further_metrics,
    known,
    pairs,
)
from evenstream.report.formats import OVER_BUDGET, format_interval, verdict
from evenstream.report.html import Marked, code, escape, spread
from evenstream.report.legend import Method, method_label
from evenstream.report.table import Column, Table
from evenstream.report.terminal_table import terminal_table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_WORDS = {"A_T": "Final accuracy", AREA.name: "While learning", "F_T": "Forgetting"}
_DIFFERENCES = {**_WORDS, "A_T": "Accuracy"}


def render_table(summary: Summary) -> list[RichTable]:
    """Return the results table and, if two methods share a seed, the table of differences."""
    own = [metric for metric in known(further_metrics(), summary) if metric.compute]
    tables = [results_table(summary, own)]
    if pairs(summary):
        tables.append(differences_table(summary, ("A_T", "F_T")))
    return [terminal_table(table) for table in tables]


def results_table(summary: Summary, own: Sequence[Metric] = ()) -> Table:
    """Return the final results of each method, and of the user's own metrics."""
    measured = [ENTRIES["A_T"], *known((AREA,), summary), ENTRIES["F_T"]]
    costs = known((COST,), summary)
    several = any(len(found.runs) > 1 for found in summary.values())
    heads = [
        *map(_measured, measured),
        Column("Seeds"),
        Column(Marked("Training seconds", "Training time"), note="seconds", terminal="Seconds"),
        *(Column("Cost", note=f"image passes {metric.unit}") for metric in costs),
        *(Column(metric.name, note=metric.reading) for metric in own),
    ]
    rows = [
        (
            *_numbers(found, measured),
            str(len(found.runs)),
            _seconds(found),
            *(_cost(found) for _ in costs),
            *_numbers(found, own),
        )
        for found in summary.values()
    ]
    caption = "Mean over seeds, after the last task." if several else "After the last task."
    best = max(summary, key=lambda name: summary[name].accuracy) if len(summary) > 1 else None
    return _by_method("Results over seeds", caption, summary, heads, rows, best)


def further_table(summary: Summary, metrics: Sequence[Metric]) -> Table:
    """Return the measures beside those in the results."""
    heads = [Column(title(metric), note=metric.reading) for metric in metrics]
    rows = [tuple(_numbers(found, metrics)) for found in summary.values()]
    return _by_method("Further measures", "After the last task.", summary, heads, rows)


def title(metric: Metric) -> str:
    """Return its words as a heading."""
    return metric.words[0].upper() + metric.words[1:]


def differences_table(summary: Summary, metrics: Sequence[str] = tuple(_DIFFERENCES)) -> Table:
    """Return the differences on the same seeds, a row for each pair of methods."""
    found = pairs(summary)
    area = any(difference[AREA.name] for *_, difference in found)
    shown = [key for key in metrics if area or key != AREA.name]
    rows = [
        (
            Marked(f"{method}\nminus {baseline}", f"{code(method)} minus {code(baseline)}"),
            *(format_interval(difference[key]) for key in shown),
            str(len(difference.seeds)),
            verdict(difference["A_T"]),
        )
        for method, baseline, difference in found
    ]
    heads = (
        Column("Pair", head=True),
        *(Column(_DIFFERENCES[key], kind="nowrap", terminal=key) for key in shown),
        Column("Seeds"),
        Column("In words", left=True),
    )
    title = "Paired differences on the same seeds, with 95 % intervals"
    caption = "Mean difference in points [95 % interval]."
    return Table(title, caption, heads, tuple(rows), kind="plain")


def _by_method(
    title: str,
    caption: str,
    summary: Summary,
    heads: Iterable[Column],
    rows: Iterable[tuple[str, ...]],
    best: str | None = None,
) -> Table:
    """Return a table with a row for each method; one may be marked as the best."""
    badge = '<span class="badge">highest</span>'
    labels = [
        Marked(name, method_label(Method(name, index)) + (badge if name == best else ""))
        for index, name in enumerate(summary)
    ]
    return Table(
        title,
        caption,
        (Column("Method", head=True), *heads),
        tuple((label, *row) for label, row in zip(labels, rows, strict=True)),
        marks=tuple("best" if name == best else "" for name in summary),
        kind="stack",
    )


def _measured(metric: Metric) -> Column:
    """Return the column of a metric with a symbol."""
    words, (letter, _, index) = _WORDS[metric.name], metric.name.partition("_")
    name = Marked(words, f"{words}, {letter}<sub>{index}</sub>")
    terminal = f"{metric.name} {metric.unit}\n{metric.better}\nis better"
    return Column(name, note=metric.reading, terminal=terminal)


def _numbers(found: MethodSummary, metrics: Iterable[Metric]) -> list[str]:
    return [spread(found.mean(m.name, m.factor), m.digits) for m in metrics]


def _seconds(found: MethodSummary) -> str:
    """Return the training time, of short runs with two digits."""
    taken = found.mean("train_seconds")
    return spread(taken, 2 if taken and taken.mean < 10 else 1)


def _cost(found: MethodSummary) -> str:
    """Return the image passes over those of ER-LAS, with a mark above the budget."""
    (cost,) = _numbers(found, (COST,))
    mean = cost.partition(" ")[0]
    if not found.over_budget:
        return Marked(mean, escape(cost))
    badge = f'<span class="badge">{OVER_BUDGET}</span>'
    return Marked(f"{mean}\n{OVER_BUDGET}", f"{escape(cost)} {badge}")
