"""Means over seeds and paired differences between methods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evenstream.errors import InputError
from evenstream.files import write_atomically
from evenstream.measures import AREA, COST, ENTRIES, Metric, metric_of
from evenstream.report.runs import SUMMARY
from evenstream.run.compare import Comparison, metrics_by_method
from evenstream.run.metrics_file import Metrics
from evenstream.statistics import Interval, mean_interval, paired_by_seed

__all__ = ["Difference", "MethodSummary", "Summary", "pairs", "summarise", "write_summary"]

_PAIRED = ("A_T", "F_T", AREA.name)


@dataclass(frozen=True)
class Difference:
    """A method minus another, on the seeds that both have."""

    seeds: tuple[int, ...]
    by_metric: Mapping[str, Interval]
    """Of A_T, F_T and A_AUC, those that both have on a common seed."""

    def __getitem__(self, metric: str) -> Interval | None:
        return self.by_metric.get(metric)


@dataclass(frozen=True)
class MethodSummary:
    """The finished runs of a method."""

    runs: Mapping[int, Metrics]
    """By seed."""
    minus: Mapping[str, Difference]
    """By earlier method, of those with a common seed."""
    budget: float | None = None

    def values(self, metric: str) -> dict[int, float]:
        """What the runs have for a metric, by seed."""
        found = {seed: run.number(metric) for seed, run in self.runs.items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def mean(self, metric: str, factor: float = 1.0) -> Interval | None:
        """Mean, deviation and interval over the seeds, in another unit by a factor."""
        values = [factor * value for value in self.values(metric).values()]
        return mean_interval(values) if values else None

    @cached_property
    def accuracy(self) -> float:
        """The mean of A_T; a method without any comes last."""
        found = self.mean("A_T")
        return float("-inf") if found is None else found.mean

    @property
    def over_budget(self) -> bool | None:
        """Whether it costs more than it may; None without a budget or a known cost."""
        cost = self.mean(COST.name)
        return None if cost is None or self.budget is None else cost.mean > self.budget

    def minus_on_common_seeds(self, earlier: MethodSummary) -> Difference:
        """The paired differences from another method."""
        seeds = tuple(seed for seed in self.runs if seed in earlier.runs)
        found = {key: paired_by_seed(self.values(key), earlier.values(key)) for key in _PAIRED}
        possible = {
            key: each.within(*metric_of(key).difference_bounds)
            for key, each in found.items()
            if each is not None
        }
        return Difference(seeds, possible)

    def entries(self) -> dict[str, Any]:
        """What `summary.json` says of it; None is what is not known."""
        further = [m.name for m in (AREA, *further_metrics()) if self.values(m.name)]
        over = self.over_budget
        return {
            **{key: self._spread(key) for key in ("A_T", "F_T", *further)},
            "seeds": list(self.runs),
            "train_seconds": self._spread("train_seconds"),
            "minus": {name: _entries(difference) for name, difference in self.minus.items()},
            **({} if over is None else {"over_budget": over}),
        }

    def _spread(self, metric: str) -> dict[str, Any]:
        found = self.mean(metric)
        values = [run.number(metric) for run in self.runs.values()]
        mean, std = (None, None) if found is None else (found.mean, found.std)
        return {"mean": mean, "std": std, "values": values}


Summary = Mapping[str, MethodSummary]
"""By method, in the order of the comparison."""


def _entries(difference: Difference) -> dict[str, Any]:
    found = {key: each.as_dict() for key, each in difference.by_metric.items()}
    return {"seeds": list(difference.seeds), "A_T": None, "F_T": None, **found}


def summarise(runs: Iterable[Metrics], budget: float | None = None) -> dict[str, MethodSummary]:
    """Sum up runs over seeds and compare the methods seed by seed.

    Args:
        runs: in the order in which the methods are to appear. Only finished ones count; a method
            without any is left out.
        budget: times the image passes of ER-LAS that a method may take.

    Raises:
        InputError: a seed of a method occurs twice.
    """
    groups: dict[str, dict[int, Metrics]] = {}
    for run in runs:
        if not run.finished or run.seed is None:
            continue
        if run.seed in groups.setdefault(run.method, {}):
            raise InputError(f"seed {run.seed} of {run.method!r} occurs more than once")
        groups[run.method][run.seed] = run
    summary: dict[str, MethodSummary] = {}
    for method, seeds in groups.items():
        own = MethodSummary(seeds, {}, budget)
        found = {name: own.minus_on_common_seeds(earlier) for name, earlier in summary.items()}
        minus = {name: difference for name, difference in found.items() if difference.seeds}
        summary[method] = MethodSummary(seeds, minus, budget)
    return summary


def write_summary(comparison: Comparison, out: Path) -> dict[str, MethodSummary]:
    """Sum up the finished runs of a comparison into `summary.json`."""
    summary = summarise(metrics_by_method(comparison, out), comparison.budget)
    content = {method: found.entries() for method, found in summary.items()}
    write_atomically(out / SUMMARY, json.dumps(content, indent=1))
    return summary


def pairs(summary: Summary) -> list[tuple[str, str, Difference]]:
    """Return a summary's differences as (method, baseline, method minus baseline).

    The last one is that of the last method from the one before it.
    """
    return [
        (method, baseline, difference)
        for method, found in summary.items()
        for baseline, difference in found.minus.items()
    ]


def further_metrics() -> list[Metric]:
    """Return the others that are explained, and those that users have registered."""
    return [m for m in ENTRIES.values() if (m.meaning or m.compute) and m.name != AREA.name]


def known(metrics: Iterable[Metric], summary: Summary) -> list[Metric]:
    """Return the metrics that at least one method has."""
    return [m for m in metrics if any(found.values(m.name) for found in summary.values())]
