"""Tables of runs: what came of experiments, beside the numbers in print where there are any."""

from __future__ import annotations

from evenstream.report.experiments.background import Background, Stated
from evenstream.report.experiments.contents import Contents, Further
from evenstream.report.experiments.found import FoundRun, Search, find_runs
from evenstream.report.experiments.outcome import Failure, Outcome, collect_outcome
from evenstream.report.experiments.report_folder import check_folder
from evenstream.report.experiments.writing import write_tables

__all__ = [
    "Background",
    "Contents",
    "Failure",
    "FoundRun",
    "Further",
    "Outcome",
    "Search",
    "Stated",
    "check_folder",
    "collect_outcome",
    "find_runs",
    "write_tables",
]
