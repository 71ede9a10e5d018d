"""Means over seeds, paired differences between methods, and both as terminal tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstream.errors import InputError
from evenstream.files import write_atomically
from evenstream.measures import AREA, COST
from evenstream.report.comparison.further import further_metrics, known
from evenstream.report.formats import (
    OVER_BUDGET,
    format_interval,
    format_spread,
    plain,
    seconds_digits,
    verdict,
)
from evenstream.report.runs import SUMMARY, number
from evenstream.run.compare import Comparison, metrics_by_method
from evenstream.statistics import mean_std, paired_difference

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["pairs", "render_table", "summarise", "write_summary"]

_UNKNOWN = {"mean": None, "std": None}
_Seeds = Mapping[int, Mapping[str, Any]]
"""The metrics of each seed of a method."""


def summarise(runs: Iterable[Mapping[str, Any]], budget: float | None = None) -> dict[str, Any]:
    """Sum up runs over seeds and compare the methods seed by seed.

    Args:
        runs: the contents of the runs' `metrics.json`, in the order in which the methods are to
            appear. Only those with the status "finished" count; a method without any is left out.
        budget: times the image passes of ER-LAS that a method may take.

    Returns:
        A dictionary from method to its results, which can be written to JSON. `A_T`, `F_T` and
        `train_seconds`, and `A_AUC` and the further measures if a run has them, each hold `mean`,
        `std` (sample deviation) and `values` (one for each of the `seeds`). `minus` maps each
        earlier method with a common seed to the paired difference from it: the common `seeds`,
        and `mean`, `low` and `high` (the ends of the 95 % interval), `n` and `std` for `A_T`,
        `F_T` and, if both have it, `A_AUC`. What is not defined is `None`. With a budget,
        `over_budget` says of each method with a known cost whether it takes more.

    Raises:
        InputError: a seed of a method occurs twice.
    """
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    for run in runs:
        if run.get("status") != "finished":
            continue
        method, seed = str(run["method"]), int(run["seed"])
        if seed in groups.setdefault(method, {}):
            raise InputError(f"seed {seed} of {method!r} occurs more than once")
        groups[method][seed] = run
    summary: dict[str, Any] = {}
    for method, seeds in groups.items():
        minus = {earlier: _difference(seeds, groups[earlier]) for earlier in summary}
        measured = {m.name: _spread(seeds, m.name) for m in (AREA, *further_metrics())}
        summary[method] = {
            "A_T": _spread(seeds, "A_T"),
            "F_T": _spread(seeds, "F_T"),
            **{key: found for key, found in measured.items() if found["mean"] is not None},
            "seeds": list(seeds),
            "train_seconds": _spread(seeds, "train_seconds"),
            "minus": {earlier: found for earlier, found in minus.items() if found["seeds"]},
        }
        cost = measured[COST.name]["mean"]
        if budget is not None and cost is not None:
            summary[method]["over_budget"] = cost > budget
    return summary


def write_summary(comparison: Comparison, out: Path) -> dict[str, Any]:
    """Sum up the finished runs of a comparison into `summary.json`."""
    summary = summarise(metrics_by_method(comparison, out), comparison.budget)
    write_atomically(out / SUMMARY, json.dumps(summary, indent=1))
    return summary


def pairs(summary: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return a summary's differences as (method, baseline, method minus baseline).

    The last one is that of the last method from the one before it.
    """
    return [
        (method, baseline, difference)
        for method, entry in summary.items()
        for baseline, difference in entry["minus"].items()
    ]


def render_table(summary: Mapping[str, Any]) -> list[Table]:
    """Return the results table and, if two methods share a seed, the table of differences."""
    tables = [_results_table(summary)]
    if pairs(summary):
        tables.append(_differences_table(summary))
    return tables


def _results_table(summary: Mapping[str, Any]) -> Table:
    """Return a row for each method."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Results over seeds", title_justify="left")
    table.add_column("Method", overflow="fold")
    area = bool(known((AREA,), summary))
    headings = ["A_T %\nhigher\nis better", "F_T points\nlower\nis better", "Seeds", "Seconds"]
    if area:
        headings.insert(1, "A_AUC %\nhigher\nis better")
    cost = bool(known((COST,), summary))
    if cost:
        headings.append("Cost\n× ER-LAS")
    own = [m for m in known(further_metrics(), summary) if m.compute]
    headings += [f"{m.name}\n{m.reading}".strip() for m in own]
    for heading in headings:
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for name, entry in summary.items():
        table.add_row(
            Text(name),
            format_spread(entry["A_T"]),
            *([format_spread(entry.get(AREA.name, _UNKNOWN))] if area else []),
            format_spread(entry["F_T"]),
            str(len(entry["seeds"])),
            format_spread(entry["train_seconds"], seconds_digits(entry)),
            *([_cost(entry)] if cost else []),
            *(format_spread(entry.get(m.name, _UNKNOWN), m.digits) for m in own),
        )
    return table


def _cost(entry: Mapping[str, Any]) -> str:
    """Return the image passes over those of ER-LAS, with a mark above the budget."""
    over = f"\n{OVER_BUDGET}" if entry.get("over_budget") else ""
    return plain(entry.get(COST.name, _UNKNOWN)["mean"], COST.digits) + over


def _differences_table(summary: Mapping[str, Any]) -> Table:
    """Return a row for each pair of methods."""
    from rich.table import Table
    from rich.text import Text

    title = "Paired differences on the same seeds, with 95 % intervals"
    table = Table(title=title, title_justify="left", show_lines=True)
    table.add_column("Pair", overflow="fold")
    for heading in ("A_T", "F_T", "Seeds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("In words", min_width=10, max_width=13)
    for method, baseline, difference in pairs(summary):
        table.add_row(
            Text(f"{method}\nminus {baseline}"),
            Text(format_interval(difference["A_T"]).replace(" [", "\n[")),
            Text(format_interval(difference["F_T"]).replace(" [", "\n[")),
            str(len(difference["seeds"])),
            verdict(difference["A_T"]),
        )
    return table


def _spread(seeds: _Seeds, key: str) -> dict[str, Any]:
    """Return mean, deviation and values of a result over seeds."""
    values = [number(run.get(key)) for run in seeds.values()]
    known = [value for value in values if value is not None]
    mean, std = mean_std(known) if known else (None, None)
    return {"mean": mean, "std": std, "values": values}


def _difference(later: _Seeds, earlier: _Seeds) -> dict[str, Any]:
    """Return the differences on the common seeds."""
    seeds = [seed for seed in later if seed in earlier]
    both = [(later[seed], earlier[seed]) for seed in seeds]
    found = {key: _interval(both, key) for key in ("A_T", "F_T", AREA.name)}
    if found[AREA.name] is None:
        del found[AREA.name]
    return {"seeds": seeds, **found}


def _interval(
    runs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], key: str
) -> dict[str, Any] | None:
    """Return the mean difference with its interval; `None` if no pair has both results."""
    both = [(number(a.get(key)), number(b.get(key))) for a, b in runs]
    known = [(a, b) for a, b in both if a is not None and b is not None]
    return paired_difference(*zip(*known, strict=True)).as_dict() if known else None
