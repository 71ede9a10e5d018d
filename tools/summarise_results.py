"""Write the summary of the stored runs at the beginning of docs/appendix/results.md.

    python tools/summarise_results.py

It is the table that `evenstream paper report --runs docs/results` begins with. To be run whenever
runs were added to docs/results or a table of the paper has changed.
"""

from __future__ import annotations

from pathlib import Path

from evenstream.errors import EvenstreamError
from evenstream.files import write_atomically
from evenstream.paper import descriptions, experiments
from evenstream.paper.overview import summary
from evenstream.paper.report import outcomes_of
from evenstream.report.experiments import Search, find_runs
from evenstream.report.experiments.markdown import table_text

DOCS = Path(__file__).parent.parent / "docs"
BEGIN = "<!-- begin: written by tools/summarise_results.py -->\n"
END = "<!-- end: written by tools/summarise_results.py -->\n"


def with_summary(text: str, results: Path) -> str:
    """The text of results.md with the summary of the runs below a folder in its place."""
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise EvenstreamError(f"the text has no place for the summary: {BEGIN}{END}")
    search = find_runs([results])
    outcomes = outcomes_of(search, experiments())
    table = table_text(summary(outcomes, list(descriptions().values())))
    return f"{before}{BEGIN}\n{table}\n\n{_seconds(search)}\n\n{END}{after}"


def _seconds(search: Search) -> str:
    known = sum(each.run.metrics.number("cpu_seconds") is not None for each in search.runs)
    return (
        f"{len(search.runs)} runs are stored. {known} of them, the newest, know their CPU seconds; "
        "of all others there are only wall seconds, of machines that did other work as well."
    )


if __name__ == "__main__":
    page = DOCS / "appendix" / "results.md"
    write_atomically(page, with_summary(page.read_text(encoding="utf-8"), DOCS / "results"))
