"""The numbers that tables show: how they come out of `metrics.json`, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from evenstream.report.runs import number

Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """One number of a run."""

    name: str
    words: str
    better: Direction = "neither"
    unit: str = ""
    digits: int = 1
    factor: float = 1.0
    """From the number in `metrics.json` to what is shown."""
    timing: bool = False
    """Whether it depends on the machine, so that other machines' numbers say little."""


def _each(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


KNOWN = _each(
    Metric("A_T", "final average accuracy", "higher", "%"),
    Metric("F_T", "final average forgetting", "lower", "points"),
    Metric("A_AUC", "accuracy while learning", "higher", "%"),
    Metric("A_T_cbl", "final class-balanced accuracy", "higher", "%"),
    Metric("A_T_cbl_classes", "class-balanced accuracy over all classes", "higher", "%"),
    Metric("F_T_literal", "forgetting to the letter", "lower", "points"),
    Metric("F_T_mammoth", "forgetting without gains", "lower", "points"),
    Metric("BWT", "backward transfer", "higher", "points"),
    Metric("FWT", "forward transfer", "higher", "points"),
    Metric("ECE", "calibration error", "lower", "points"),
    Metric("recency_bias", "recency bias", unit="points", factor=100),
    Metric("prequential_accuracy", "prequential accuracy", "higher", "%"),
    Metric("prediction_share_last", "share of predictions on the last task", unit="%"),
    Metric("accuracy_last_task", "final accuracy on the last task", "higher", "%"),
    Metric("accuracy_other_tasks", "final accuracy on the tasks before", "higher", "%"),
    Metric("average_accuracy_mean", "average accuracy, mean over tasks", "higher", "%"),
    Metric("train_seconds", "training time", "lower", "s", timing=True),
    Metric("train_seconds_ratio", "training time over that of ER-LAS", "lower", "×", 2),
    Metric("eval_seconds", "time for evaluations", "lower", "s", timing=True),
    Metric("samples_per_second", "samples a second", "higher", "1/s", timing=True),
)


def metric_of(name: str) -> Metric:
    """What is known of a metric; a gain is read like what it is a gain in."""
    if name.endswith("_gain"):
        of = metric_of(name.removesuffix("_gain"))
        return Metric(name, f"gain of LAS in {of.words}", of.better, "points", of.digits)
    return KNOWN.get(name, Metric(name, name))


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
