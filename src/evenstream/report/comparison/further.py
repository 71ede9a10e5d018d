"""The numbers of a run that the report shows beside final accuracy and forgetting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenstream.measures import ENTRIES, Metric

AREA = ENTRIES["A_AUC"]
FURTHER = [metric for metric in ENTRIES.values() if metric.meaning and metric is not AREA]


def known(metrics: Sequence[Metric], summary: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics that at least one method has."""
    return [m for m in metrics if any(m.name in entry for entry in summary.values())]


def title(metric: Metric) -> str:
    """Return its words as a heading."""
    return metric.words[0].upper() + metric.words[1:]
