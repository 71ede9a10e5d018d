"""The numbers that tables show: how they come out of `metrics.json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from evenstream.measures import metric_of
from evenstream.run.metrics_file import Metrics, number


def numbers(metric: str, found: Metrics) -> dict[str, float]:
    """The numbers that a run has for an entry of `metrics.json`: one, or some of a list."""
    named: dict[str, float | None]
    if metric in _OF_LISTS:
        named = {name: of(found.values(metric)) for name, of in _OF_LISTS[metric].items()}
    else:
        value = found.number(metric)
        named = {metric: None if value is None else value * metric_of(metric).factor}
    return {name: value for name, value in named.items() if value is not None}


def names_of(metrics: Sequence[str]) -> set[str]:
    """The names of all numbers that come out of entries of `metrics.json`."""
    names = {name for metric in metrics for name in _OF_LISTS.get(metric, (metric,))}
    return names | ({"train_seconds_ratio"} if "train_seconds" in names else set())


def _last_share(shares: Sequence[Any]) -> float | None:
    last = number(shares[-1]) if shares else None
    return None if last is None else 100 * last


def _last_task(matrix: Sequence[Any]) -> float | None:
    row = _last_row(matrix)
    return row[-1] if row else None


def _other_tasks(matrix: Sequence[Any]) -> float | None:
    others = _last_row(matrix)[:-1]
    return fmean(others) if others else None


def _last_row(matrix: Sequence[Any]) -> list[float]:
    """The accuracies at the end; none unless all are known."""
    last = matrix[-1] if matrix else []
    row = [number(value) for value in last] if isinstance(last, list) else []
    known = [value for value in row if value is not None]
    return known if len(known) == len(row) else []


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in map(number, values) if value is not None]
    return fmean(known) if known else None


_OF_LISTS: dict[str, dict[str, Callable[[Sequence[Any]], float | None]]] = {
    "prediction_share": {"prediction_share_last": _last_share},
    "accuracy_matrix": {"accuracy_last_task": _last_task, "accuracy_other_tasks": _other_tasks},
    "average_accuracy": {"average_accuracy_mean": _mean},
}
"""Numbers by name that are made from entries which are lists."""
