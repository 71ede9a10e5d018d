"""One line for every table and figure of the paper: what was run, and how it compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from evenstream.paper.choice import in_order
from evenstream.paper.contents import Description
from evenstream.report.experiments import Outcome
from evenstream.report.experiments.outcome import Measured
from evenstream.report.experiments.shown_numbers import names_of
from evenstream.report.experiments.verdicts import SIGNS, PrintComparison, Verdict
from evenstream.report.formats import signed
from evenstream.report.table import Column, Table

_COUNTED: tuple[Verdict, ...] = ("no clear difference", "better", "worse")
_CAPTION = (
    "Numbers that each table prints, or the text about a figure (one that holds for several cells "
    "counts for each); how many of them have runs at the paper's own scale, and how these compare, "
    "by the rule of the report; the rest is open. Runs at a smaller scale are in the last column: "
    "their verdicts compare another network, or less data, with the paper's."
)


def summary(outcomes: Sequence[Outcome], described: Sequence[Description]) -> Table:
    """Every table and figure in the paper's order, and their sum."""
    tallies = {outcome.experiment.name: _Tally(outcome) for outcome in outcomes}
    entries = in_order([*(outcome.experiment for outcome in outcomes), *described])
    rows = [
        (entry.source, entry.name, "–", "", "", "", "", "", "describes data: needs no runs")
        if isinstance(entry, Description)
        else tallies[entry.name].row
        for entry in entries
    ]
    every = list(tallies.values())
    numbers = [sum(tally.numbers[place] for tally in every) for place in range(2 + len(_COUNTED))]
    rows.append(("all", "", *map(str, numbers), "", f"{numbers[0] - sum(numbers[2:])} open"))
    heads = (
        *(Column(name, left=True, head=True) for name in ("paper", "experiment")),
        *(Column(name) for name in ("printed", "run", *(f"{SIGNS[v]} {v}" for v in _COUNTED))),
        *(Column(name, left=True) for name in ("ours − printed", "open, and why")),
    )
    return Table("Summary", _CAPTION, heads, tuple(rows))


@dataclass(frozen=True)
class _Tally:
    """The state of the numbers that one table prints."""

    outcome: Outcome

    @property
    def row(self) -> tuple[str, ...]:
        experiment = self.outcome.experiment
        numbers = [str(number) if self.printed else "" for number in self.numbers]
        differences = "; ".join(self._differences())
        name = f"{experiment.name}, inferred protocol" if experiment.inferred else experiment.name
        return (experiment.source, name, *numbers, differences, "; ".join(self._open()))

    @property
    def numbers(self) -> list[int]:
        """Counts: printed, run, then one for each verdict."""
        counts = self._verdicts(self.outcome.experiment.base)
        return [self.printed, sum(counts.values()), *(counts[verdict] for verdict in _COUNTED)]

    @cached_property
    def printed(self) -> int:
        """The number of numbers in this table, without those of other tables for its cells."""
        experiment, stated = self.outcome.experiment, self.outcome.background.stated
        wanted = names_of(experiment.metrics)
        return sum(
            metric in wanted and any(value.source == experiment.source for value in values)
            for cell in experiment.cells()
            for metric, values in stated(cell, experiment.base).items()
        )

    def _compared(self, scale: str) -> Iterator[tuple[Measured, PrintComparison]]:
        """Our numbers at a scale beside those of this very table."""
        every = self.outcome.compared(own=True)
        return ((each, found) for each, found in every if each.scale == scale)

    def _verdicts(self, scale: str) -> Counter[Verdict]:
        return Counter(found.verdict for _, found in self._compared(scale))

    def _differences(self) -> Iterator[str]:
        """From the lowest to the highest, metric by metric."""
        found: dict[str, list[tuple[float, int]]] = {}
        for each, comparison in self._compared(self.outcome.experiment.base):
            value = (comparison.difference, each.metric.digits)
            found.setdefault(each.metric.name, []).append(value)
        for metric, values in found.items():
            ends = dict.fromkeys(signed(*end) for end in (min(values), max(values)))
            yield f"{metric} {' to '.join(ends)}"

    def _open(self) -> Iterator[str]:
        """Why numbers have no verdict, and what there is at smaller scales."""
        experiment, base = self.outcome.experiment, self.outcome.experiment.base
        counts = self._verdicts(base)
        if not self.printed:
            yield "no number printed"
        elif self.printed > counts.total():
            yield f"{self.printed - counts.total()} not run"
        yield from (f"{counts[v]} {words}" for v, words in _WORDS.items() if counts[v])
        for scale in experiment.scale_names:
            cells, counts = len(self.outcome.cells.get(scale, {})), self._verdicts(scale)
            if cells and (scale != base or not self.printed):
                said = [f"{sign} {counts[v]}" for v, sign in SIGNS.items() if counts[v]]
                run = f"at scale {scale} {cells} of {len(experiment.cells(scale))} cells run"
                yield run + (f": {', '.join(said)}" if said else "")


_WORDS: dict[Verdict, str] = {
    "one seed": "with one seed",
    "not compared": "not compared (a time, or printed without a deviation)",
    "not judged": "not judged (a setting of ours was chosen on it)",
    "differs": "other than printed",
}
