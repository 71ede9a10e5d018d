"""Reports: from finished runs to tables in the terminal and one self-contained HTML page."""

from __future__ import annotations

from evenstream.report.charts.overview import save_overview_png
from evenstream.report.comparison.page import write_report
from evenstream.report.comparison.summary import summarise
from evenstream.report.comparison.tables import render_table
from evenstream.report.runs import Run, load_runs

__all__ = [
    "Run",
    "load_runs",
    "render_table",
    "save_overview_png",
    "summarise",
    "write_report",
]
