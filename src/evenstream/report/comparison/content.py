"""What a report is made from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evenstream.errors import EvenstreamError
from evenstream.report.comparison.summary import Summary, summarise
from evenstream.report.runs import Run, load_runs
from evenstream.report.series import Series, collect
from evenstream.run.compare import Comparison
from evenstream.run.config import COMPARISON


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
    summary: Summary

    @property
    def classes(self) -> list[str]:
        """The names of the classes; none if the runs do not agree on their number."""
        names = [run.metrics.classes for run in self.finished if run.metrics.classes]
        return names[0] if len({len(found) for found in names}) == 1 else []

    @classmethod
    def read(cls, directory: Path, budget: float | None = None) -> Content:
        """Read a run or comparison directory; a budget replaces that of the comparison."""
        runs = load_runs(directory)
        finished = [run for run in runs if run.finished]
        series = collect(finished)
        if budget is None and (directory / COMPARISON).is_file():
            with suppress(EvenstreamError):  # a report needs no more than the runs
                budget = Comparison.read(directory).budget
        summary = summarise((run.metrics for run in finished), budget)
        return cls(directory, runs, finished, series, summary)
