"""What is known of an experiment beside its runs: numbers in print, notes, how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evenstream.statistics import Sample
from evenstream.sweep.experiment import Cell


@dataclass(frozen=True)
class Stated:
    """A number in print that ours is put beside."""

    mean: float
    std: float | None
    runs: int
    """How many runs it was made from."""
    decimals: int
    """How many the mean is printed with."""
    source: str
    """Where it is printed."""
    same_data: bool = True
    """Whether ours has learned from the same data; if not, there is no verdict."""
    std_decimals: int = 1
    """How many the deviation is printed with."""

    @property
    def rounding(self) -> float:
        """How far the mean may be from the one before rounding."""
        return float(0.5 * 10**-self.decimals)

    @property
    def sample(self) -> Sample | None:
        """What is known of the runs; None without a deviation."""
        return None if self.std is None else Sample(self.mean, self.std, self.runs)

    def agrees_with(self, finer: Stated) -> bool:
        """Whether it is the same number as one that is printed with more decimals."""
        return self.decimals <= finer.decimals and round(finer.mean, self.decimals) == self.mean


Numbers = Mapping[str, Sequence[Stated]]
"""By metric; several are the same number from several places, or a contradiction."""


def _nothing(cell: Cell, scale: str) -> Numbers:
    return {}


@dataclass(frozen=True)
class Background:
    """What a report shows of an experiment beside its runs."""

    stated: Callable[[Cell, str], Numbers] = _nothing
    """The numbers in print for a cell at a scale."""
    by: str = ""
    """Whose numbers these are, as in "the paper"."""
    notes: tuple[str, ...] = ()
    command: str = ""
    """What makes the runs."""
    above: str = ""
    """What stands above the tables of results."""


def distinct(values: Iterable[Stated]) -> list[Stated]:
    """Numbers that differ, each once and as exact as it is printed, with all its sources."""
    found: list[Stated] = []
    for value in sorted(values, key=lambda value: -value.decimals):
        for place, known in enumerate(found):
            if value.agrees_with(known) and (
                value.decimals < known.decimals or value.std == known.std
            ):
                sources = dict.fromkeys([*known.source.split(", "), value.source])
                found[place] = replace(known, source=", ".join(sources))
                break
        else:
            found.append(value)
    return found
