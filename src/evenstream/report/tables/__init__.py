"""Tables of runs: what came of experiments, beside the numbers in print where there are any."""

from __future__ import annotations

from evenstream.report.tables.background import Background, Stated
from evenstream.report.tables.contents import Contents, Further
from evenstream.report.tables.folder import check_folder
from evenstream.report.tables.found import FoundRun, Search, find_runs
from evenstream.report.tables.outcome import Outcome, collect_outcome
from evenstream.report.tables.table import Table
from evenstream.report.tables.writing import write_tables

__all__ = [
    "Background",
    "Contents",
    "FoundRun",
    "Further",
    "Outcome",
    "Search",
    "Stated",
    "Table",
    "check_folder",
    "collect_outcome",
    "find_runs",
    "write_tables",
]
