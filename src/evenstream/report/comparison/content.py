"""What a report is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenstream.report.comparison.summary import summarise
from evenstream.report.runs import Run, load_runs
from evenstream.report.series import Series, collect


@dataclass(frozen=True)
class Content:
    """The runs of a directory, and what they come to.

    Attributes:
        directory: where they are.
        runs: all of them.
        finished: those with results.
        series: their curves, averaged over the seeds of each method.
        summary: their final results, as in `summary.json`.
    """

    directory: Path
    runs: Sequence[Run]
    finished: Sequence[Run]
    series: Sequence[Series]
    summary: Mapping[str, Any]

    @property
    def classes(self) -> list[str]:
        """The names of the classes; none if the runs do not agree on their number."""
        names = [run.classes for run in self.finished if run.classes]
        return names[0] if len({len(found) for found in names}) == 1 else []

    @classmethod
    def read(cls, directory: Path) -> Content:
        """Read a run or comparison directory."""
        runs = load_runs(directory)
        finished = [run for run in runs if run.finished]
        series = collect(finished)
        return cls(directory, runs, finished, series, summarise(run.metrics for run in finished))
