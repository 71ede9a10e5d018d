"""Names and explanations of the numbers in `metrics.json`: docs/reference/metrics.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenstream.registry import Registry

METRICS = "metrics.json"

Direction = Literal["higher", "lower", "zero", "neither"]
"""Which numbers are good."""

OfMatrix = Callable[[NDArray[np.float64]], float | None]
"""A user's metric: a number, or None, from the accuracy matrix of a run (`metrics`)."""


@dataclass(frozen=True)
class Metric:
    """One number of a run."""

    name: str
    words: str
    better: Direction = "neither"
    unit: str = ""
    meaning: str = ""
    """An explanation for newcomers."""
    digits: int = 1
    factor: float = 1.0
    """Factor from the number in `metrics.json` to the one shown."""
    timing: bool = False
    """Whether it depends on the machine, so that numbers from other machines say little."""
    compute: OfMatrix | None = None
    """The function of a metric registered by a user."""

    @property
    def ranks(self) -> bool:
        """Whether a higher number is better than a lower one, or the other way round."""
        return self.better in ("higher", "lower")

    @property
    def bounds(self) -> tuple[float, float]:
        """What no number can lie beyond."""
        least = 0.0 if self.timing else -math.inf
        return {"%": (0.0, 100.0), "points": (-100.0, 100.0)}.get(self.unit, (least, math.inf))

    @property
    def difference_bounds(self) -> tuple[float, float]:
        """The same for the difference of two."""
        low, high = self.bounds
        return low - high, high - low

    @property
    def reading(self) -> str:
        """Its unit, and which numbers are good."""
        good = "0 is best" if self.better == "zero" else f"{self.better} is better"
        parts = [self.unit, "" if self.better == "neither" else good]
        return ", ".join(part for part in parts if part)


def _each(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


_OURS = _each(
    Metric("A_T", "final average accuracy", "higher", "%"),
    Metric("F_T", "final average forgetting", "lower", "points"),
    Metric(
        "A_AUC", "accuracy while learning", "higher", "%",
        "the average of the accuracy over the whole stream on all classes observed so far",
    ),
    Metric(
        "A_T_cbl", "final class-balanced accuracy", "higher", "%",
        "every class of a task counts the same, then every task",
    ),
    Metric(
        "A_T_cbl_classes", "class-balanced accuracy over all classes", "higher", "%",
        "every class counts the same",
    ),
    Metric(
        "prequential_accuracy", "prequential accuracy", "higher", "%",
        "training samples predicted right just before they were learned from",
    ),
    Metric(
        "recency_bias", "recency bias", "zero", "points",
        "how many more predictions fall on the newest task's classes than belong there",
        factor=100,
    ),
    Metric(
        "ECE", "calibration error", "lower", "points",
        "how far the confidence of predictions is from their accuracy",
    ),
    Metric(
        "BWT", "backward transfer", "higher", "points",
        "change of the accuracy on a task since it was learned",
    ),
    Metric(
        "FWT", "forward transfer", "higher", "points",
        "accuracy on a task right before it is learned, beyond that of an untrained network",
    ),
    Metric(
        "F_T_literal", "forgetting to the letter", "lower", "points",
        "forgetting that also looks at the accuracy on a task before it is learned",
    ),
    Metric("F_T_mammoth", "forgetting without gains", "lower", "points"),
    Metric(
        "relative_cost", "cost", "lower", "× ER-LAS",
        "image passes over those of ER-LAS with the batch sizes that are usual on this stream",
        digits=2,
    ),
    Metric(
        "image_passes", "image passes", "lower", "",
        "a sample's forward through the network counts 1, its backward 2", digits=0,
    ),
    Metric("train_seconds", "training time", "lower", "s", timing=True),
    Metric("cpu_seconds", "CPU time of training", "lower", "s", timing=True),
    Metric(
        "eval_seconds", "time for evaluations", "lower", "s", "spent on top of training",
        timing=True,
    ),
    Metric("samples_per_second", "samples a second", "higher", "1/s", timing=True),
)  # fmt: skip
ENTRIES: Registry[Metric] = Registry("metric", _OURS, form="[A-Za-z][A-Za-z0-9_]*")
"""Entries of `metrics.json` that are one number."""

AREA = _OURS["A_AUC"]
COST = _OURS["relative_cost"]

DERIVED = _each(
    Metric("prediction_share_last", "share of predictions on the last task", unit="%"),
    Metric("accuracy_last_task", "final accuracy on the last task", "higher", "%"),
    Metric("accuracy_other_tasks", "final accuracy on the tasks before", "higher", "%"),
    Metric("average_accuracy_mean", "average accuracy, mean over tasks", "higher", "%"),
    Metric("train_seconds_ratio", "training time over that of ER-LAS", "lower", "×", digits=2),
)
"""Numbers that reports compute from other entries."""


def metric_of(name: str) -> Metric:
    """The description of a metric; a gain is read like the metric it is a gain in."""
    if name.endswith("_gain"):
        of = metric_of(name.removesuffix("_gain"))
        words = f"gain of LAS in {of.words}"
        return Metric(name, words, of.better, "points", digits=of.digits)
    return ENTRIES.get(name) or DERIVED.get(name) or Metric(name, name)
