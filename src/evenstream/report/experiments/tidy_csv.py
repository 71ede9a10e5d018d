"""Tables as tidy CSV: one line for each cell, scale and metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from evenstream.report.experiments.found import FoundRun
from evenstream.report.experiments.outcome import Gain, Measured, Outcome
from evenstream.report.experiments.wording import commits, machines, scale_words
from evenstream.report.table import Table
from evenstream.statistics import Interval
from evenstream.sweep.experiment import Cell


def outcome_csv(outcome: Outcome) -> str:
    """The lines of an experiment; where several numbers are printed, they are joined by `;`.

    Failed runs and printed numbers of what was not run have lines, too.
    """
    lines = [*_measured(outcome), *_gains(outcome), *_failures(outcome), *_not_run(outcome)]
    text = io.StringIO()
    columns = dict.fromkeys(name for line in lines for name in line)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def table_csv(table: Table) -> str:
    """A table as it is."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def _measured(outcome: Outcome) -> Iterator[dict[str, Any]]:
    for each in outcome.measured:
        yield {
            **_head(outcome, each.cell, each.scale),
            "metric": each.metric.name,
            **_mean(each.interval),
            **_printed(outcome, each),
            "relative_cost": each.cost,
            "wall_seconds": each.seconds,
            **_made(each.runs.values()),
        }


def _printed(outcome: Outcome, each: Measured) -> dict[str, Any]:
    if not outcome.background.by:
        return {}
    found = each.comparisons
    ends = [(c.interval.low, c.interval.high) if c.interval else (None, None) for c in found]
    return {
        "printed_mean": _join(c.stated.mean for c in found),
        "printed_std": _join(c.stated.std for c in found),
        "printed_in": _join(c.stated.source for c in found),
        "difference": _join(c.difference for c in found),
        "difference_low": _join(low for low, _ in ends),
        "difference_high": _join(high for _, high in ends),
        "verdict": _join(c.verdict for c in found) or "not printed",
    }


def _gains(outcome: Outcome) -> Iterator[dict[str, Any]]:
    for each in (*outcome.gains, *outcome.differences):
        base = f"_minus_{each.without[each.key]}" if each.key else "_gain"
        yield {
            **_head(outcome, each.cell, each.scale),
            "metric": each.metric.name + base,
            **_mean(each.interval),
            **_printed_gain(outcome, each),
            **_made(each.runs),
        }


def _printed_gain(outcome: Outcome, each: Gain) -> dict[str, Any]:
    if not outcome.background.by:
        return {}
    return {
        "printed_mean": _join(stated.mean for stated in each.stated),
        "printed_in": _join(stated.source for stated in each.stated),
        "difference": _join(each.interval.mean - stated.mean for stated in each.stated),
        "verdict": "not compared" if each.stated else "not printed",
    }


def _failures(outcome: Outcome) -> Iterator[dict[str, Any]]:
    for each in outcome.failures:
        yield {
            **_head(outcome, each.cell, each.scale),
            "seeds": 0,
            "verdict": "failed",
            "error": f"seed {each.seed}: {each.error}",
        }


def _not_run(outcome: Outcome) -> Iterator[dict[str, Any]]:
    for cell, metric, stated in outcome.not_run():
        yield {
            **_head(outcome, cell, outcome.experiment.base),
            "metric": metric,
            "seeds": 0,
            "printed_mean": _join(each.mean for each in stated),
            "printed_std": _join(each.std for each in stated),
            "printed_in": _join(each.source for each in stated),
            "verdict": "not run",
        }


def _head(outcome: Outcome, cell: Cell, scale: str) -> dict[str, Any]:
    return {
        "experiment": outcome.experiment.name,
        **dict(cell.keys),
        "scale": scale,
        "scale_in_words": scale_words(outcome, scale),
    }


def _mean(interval: Interval) -> dict[str, float | None]:
    return {
        "mean": interval.mean,
        "std": interval.std,
        "seeds": interval.n,
        "interval_low": interval.low,
        "interval_high": interval.high,
    }


def _made(runs: Iterable[FoundRun]) -> dict[str, str]:
    listed = list(runs)
    return {
        "machine": machines(listed),
        "commit": commits(listed),
        "runs": " ".join(run.key for run in listed),
    }


def _join(values: Iterable[object]) -> str:
    """Values in their order; one that is missing keeps its place, unless all are."""
    listed = list(values)
    if all(value is None for value in listed):
        return ""
    return "; ".join("" if value is None else str(value) for value in listed)
