"""What a report of tables is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from evenstream.errors import count
from evenstream.report.experiments.found import FoundRun, Search
from evenstream.report.experiments.outcome import Outcome
from evenstream.report.experiments.verdicts import SIGNS
from evenstream.report.experiments.wording import source_words
from evenstream.report.table import Column, Table


@dataclass(frozen=True)
class Further:
    """Something that needs no runs."""

    name: str
    title: str
    text: str
    table: Table | None = None
    html: str = ""
    """Figures, for the page only."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """An experiment in a line."""

    name: str
    title: str
    scales: str
    cells: str
    runs: int
    verdicts: str


@dataclass(frozen=True)
class Contents:
    """Everything that a report shows."""

    title: str
    lead: str
    outcomes: Sequence[Outcome]
    search: Search = field(default_factory=Search)
    unplaced: Sequence[FoundRun] = ()
    """Runs that belong to no cell."""
    further: Sequence[Further] = ()
    summary: Table | None = None
    """What a reader sees first."""

    @property
    def with_runs(self) -> list[Outcome]:
        """Experiments that have any run, be it one that failed."""
        return [outcome for outcome in self.outcomes if outcome.cells or outcome.failures]

    @property
    def without_runs(self) -> list[Outcome]:
        """Experiments that have none."""
        return [outcome for outcome in self.outcomes if not (outcome.cells or outcome.failures)]

    @property
    def compared(self) -> bool:
        """Whether any number in print is beside ours."""
        return any(each.comparisons for outcome in self.with_runs for each in outcome.measured)

    def overview(self) -> list[Row]:
        """A line for each experiment with runs."""
        return [_row(outcome) for outcome in self.with_runs]

    def overview_table(self) -> Table:
        """The same as a table."""
        heads = (
            Column("experiment", left=True, head=True),
            Column("what it shows", left=True, kind="wrap"),
            Column("scales", left=True),
            Column("cells with runs"),
            Column("runs"),
            Column("verdicts", left=True, kind="wrap"),
        )
        rows = tuple(
            (row.name, row.title, row.scales, row.cells, str(row.runs), row.verdicts)
            for row in self.overview()
        )
        return Table("What has been run", "", heads, rows, kind="overview")

    def remarks(self) -> list[str]:
        """How many runs are in no table, and why."""
        found = [
            (self.search.unfinished, "not finished"),
            (self.search.failed, "failed, each with an error.json in its folder"),
            (self.search.copies, "there more than once, each counted once"),
        ]
        return [f"{count(number, 'run')} {why}" for number, why in found if number]


def _row(outcome: Outcome) -> Row:
    experiment = outcome.experiment
    said = [_verdicts(outcome, own=own) for own in (True, False)]
    parts = [said[0], f"beside numbers of other tables: {said[1]}" if said[1] else ""]
    return Row(
        experiment.name,
        f"{experiment.title} ({source_words(experiment)})"
        if experiment.inferred
        else experiment.title,
        ", ".join(outcome.cells),
        ", ".join(
            f"{len(cells)}/{len(experiment.cells(scale))}" for scale, cells in outcome.cells.items()
        ),
        len(outcome.runs),
        "; ".join(filter(None, parts)) or "–",
    )


def _verdicts(outcome: Outcome, *, own: bool) -> str:
    """How many there are of each, at each scale."""
    counts = Counter((each.scale, found.verdict) for each, found in outcome.compared(own=own))
    return "; ".join(
        f"{SIGNS[verdict]} {number} {verdict}"
        + ("" if scale == outcome.experiment.base else f" at {scale}")
        for (scale, verdict), number in counts.items()
    )
