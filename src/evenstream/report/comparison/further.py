"""The numbers of a run that the report shows beside final accuracy and forgetting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenstream.measures import AREA, ENTRIES, Metric


def further_metrics() -> list[Metric]:
    """Return the others that are explained, and those that users have registered."""
    return [m for m in ENTRIES.values() if (m.meaning or m.compute) and m.name != AREA.name]


def known(metrics: Sequence[Metric], summary: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics that at least one method has."""
    return [m for m in metrics if any(m.name in entry for entry in summary.values())]


def title(metric: Metric) -> str:
    """Return its words as a heading."""
    return metric.words[0].upper() + metric.words[1:]
