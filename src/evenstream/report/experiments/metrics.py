"""The numbers that tables show: how they come out of `metrics.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from evenstream.measures import metric_of
from evenstream.report.runs import number


def numbers(metric: str, found: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that a run has for an entry of `metrics.json`: one, or some of a list."""
    make = _OF_LISTS.get(metric)
    value = number(found.get(metric))
    if make is not None:
        named = make(_list(found.get(metric)))
    else:
        named = {metric: None if value is None else value * metric_of(metric).factor}
    return {name: value for name, value in named.items() if value is not None}


def names_of(metrics: Sequence[str]) -> set[str]:
    """The names of all numbers that come out of entries of `metrics.json`."""
    names = {name for metric in metrics for name in _NAMES.get(metric, (metric,))}
    return names | ({"train_seconds_ratio"} if "train_seconds" in names else set())


def _share(values: Sequence[Any]) -> dict[str, float | None]:
    last = number(values[-1]) if values else None
    return {"prediction_share_last": None if last is None else 100 * last}


def _last_row(matrix: Sequence[Any]) -> dict[str, float | None]:
    row = [number(value) for value in _list(matrix[-1])] if matrix else []
    known = [value for value in row if value is not None]
    if not row or len(known) < len(row):
        return {}
    return {
        "accuracy_last_task": known[-1],
        "accuracy_other_tasks": fmean(known[:-1]) if len(known) > 1 else None,
    }


def _mean(values: Sequence[Any]) -> dict[str, float | None]:
    known = [value for value in map(number, values) if value is not None]
    return {"average_accuracy_mean": fmean(known) if known else None}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


_OF_LISTS: dict[str, Callable[[Sequence[Any]], dict[str, float | None]]] = {
    "prediction_share": _share,
    "accuracy_matrix": _last_row,
    "average_accuracy": _mean,
}

_NAMES = {
    "prediction_share": ("prediction_share_last",),
    "accuracy_matrix": ("accuracy_last_task", "accuracy_other_tasks"),
    "average_accuracy": ("average_accuracy_mean",),
}
