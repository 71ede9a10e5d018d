"""The numbers of a run beside final accuracy and forgetting: which there are, and how to show them.

`docs/metrics.md` explains each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """A number in `metrics.json` and in a summary."""

    key: str
    name: str
    unit: str
    meaning: str
    factor: float = 1.0
    """From the number to what is shown."""


AREA = Measure(
    "A_AUC", "Accuracy while learning, A_AUC", "%, higher is better",
    "the average of the accuracy over the whole stream on all classes observed so far",
)  # fmt: skip

FURTHER = (
    Measure(
        "A_T_cbl", "Class-balanced over tasks", "%",
        "every class of a task counts the same, then every task",
    ),
    Measure(
        "A_T_cbl_classes", "Class-balanced over classes", "%", "every class counts the same",
    ),
    Measure(
        "prequential_accuracy", "Prequential accuracy", "%",
        "training samples predicted right just before they were learned from",
    ),
    Measure(
        "recency_bias", "Recency bias", "points, 0 is best",
        "how many more predictions fall on the newest task's classes than belong there", 100,
    ),
    Measure(
        "ECE", "Calibration error", "points, lower is better",
        "how far the confidence of predictions is from their accuracy",
    ),
    Measure(
        "BWT", "Backward transfer", "points, higher is better",
        "change of the accuracy on a task since it was learned",
    ),
    Measure(
        "FWT", "Forward transfer", "points, higher is better",
        "accuracy on a task right before it is learned, beyond that of an untrained network",
    ),
    Measure(
        "F_T_literal", "Forgetting to the letter", "points, lower is better",
        "forgetting that also looks at the accuracy on a task before it is learned",
    ),
    Measure("eval_seconds", "Evaluation", "seconds", "spent on top of training"),
)  # fmt: skip


def known(measures: tuple[Measure, ...], summary: Mapping[str, Any]) -> list[Measure]:
    """Return the measures that at least one method has."""
    return [m for m in measures if any(m.key in entry for entry in summary.values())]
