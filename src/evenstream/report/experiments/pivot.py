"""The results of an experiment in the form of its table: its rows, and all else as columns."""

from __future__ import annotations

from collections.abc import Sequence

from evenstream.errors import count
from evenstream.measures import Metric
from evenstream.report.experiments.background import Stated, distinct
from evenstream.report.experiments.outcome import Measured, Outcome
from evenstream.report.experiments.verdicts import SIGNS
from evenstream.report.experiments.wording import (
    all_cells,
    key_words,
    metric_text,
    scale_words,
    stated_text,
    varying_keys,
)
from evenstream.report.formats import format_spread
from evenstream.report.table import OR, Column, Table
from evenstream.sweep.experiment import Cell, Value

_Values = tuple[Value, ...]
_SAID = ("better", "worse", "differs", "no clear difference")
"""Verdicts whose sign stands in the table; why there is none is in the list of all cells."""


def pivot(outcome: Outcome, scale: str, measured: Sequence[Measured]) -> Table:
    """What was measured at a scale, "ours / printed" in each cell where anything is printed.

    It has every row and column with a run. Cells in between without one have a dash for ours.
    """
    experiment, by = outcome.experiment, outcome.background.by
    varying, fixed = varying_keys(each.cell for each in measured)
    down = list(experiment.rows)
    across = [key for key in varying if key not in down]
    common = {key: value for key, value in fixed.items() if key not in down}
    cells = {
        _place(cell, down, across): cell
        for cell in experiment.cells(scale)
        if all(cell[key] == value for key, value in common.items())
    }
    found = {(each.cell, each.metric): each for each in measured}
    metrics = list(dict.fromkeys(each.metric for each in measured))
    had = {_place(each.cell, down, across) for each in measured}
    rows = [row for row in dict.fromkeys(row for row, _ in cells) if row in {r for r, _ in had}]
    columns = [c for c in dict.fromkeys(c for _, c in cells) if c in {column for _, column in had}]
    beside = any(each.stated for each in measured)
    texts = [
        [
            _text(outcome, scale, cells.get((row, column)), metric, found, beside=beside)
            for column in columns
            for metric in metrics
        ]
        for row in rows
    ]
    heads = [
        _head(across, column, metric.name if len(metrics) > 1 or not across else "")
        for column in columns
        for metric in metrics
    ]
    caption = [f"Each cell: ours / {by}, where it prints a number." if beside else ""]
    caption += [all_cells(common)]
    caption += [f"{metric_text(metric)}." for metric in metrics]
    caption += [_seeds(measured), outcome.background.above(scale)]
    return Table(
        "Results",
        " ".join(part for part in caption if part),
        (*(Column(key, left=True, head=True) for key in down), *map(Column, heads)),
        tuple((*map(str, row), *text) for row, text in zip(rows, texts, strict=True)),
        scale_words(outcome, scale),
        kind="grid",
    )


def _place(cell: Cell, down: Sequence[str], across: Sequence[str]) -> tuple[_Values, _Values]:
    """The row and the column of a cell."""
    return tuple(cell[key] for key in down), tuple(cell[key] for key in across)


def _head(across: Sequence[str], column: _Values, metric: str) -> str:
    words = [key_words(key, value) for key, value in zip(across, column, strict=True)]
    return ", ".join([*words, metric] if metric else words)


def _text(
    outcome: Outcome,
    scale: str,
    cell: Cell | None,
    metric: Metric,
    found: dict[tuple[Cell, Metric], Measured],
    *,
    beside: bool,
) -> str:
    """One cell: ours, what is printed, and the signs of the verdicts."""
    if cell is None:
        return ""
    each = found.get((cell, metric))
    ours = "–" if each is None else format_spread(each.interval, metric.digits)
    if not beside:
        return ours
    stated: Sequence[Stated] = (
        distinct(outcome.background.stated(cell, scale).get(metric.name, ()))
        if each is None
        else each.stated
    )
    if not stated:
        return ours
    printed = OR.join(stated_text(value, source=False) for value in stated)
    verdicts = [] if each is None else [comparison.verdict for comparison in each.comparisons]
    signs = "".join(dict.fromkeys(SIGNS[verdict] for verdict in verdicts if verdict in _SAID))
    return f"{ours} / {printed} {signs}".strip()


def _seeds(measured: Sequence[Measured]) -> str:
    numbers = sorted({len(each.values) for each in measured})
    if len(numbers) == 1:
        return f"{count(numbers[0], 'seed')} each."
    return f"{numbers[0]} to {count(numbers[-1], 'seed')} each."
