"""What is known about an experiment besides its runs: printed numbers, notes, how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evenstream.statistics import Sample
from evenstream.sweep.experiment import Cell


@dataclass(frozen=True)
class Stated:
    """A printed number to compare ours with."""

    mean: float
    std: float | None
    runs: int
    """Number of runs behind it."""
    decimals: int
    """Number of decimals of the printed mean."""
    source: str
    """Where it is printed."""
    same_data: bool = True
    """Whether ours learned from the same data; if not, there is no verdict."""
    judged: bool = True
    """Whether it may judge our settings; not if one of them was chosen by it."""
    std_decimals: int = 1
    """Number of decimals of the printed deviation."""

    @property
    def rounding(self) -> float:
        """How far the printed mean may be from the unrounded one."""
        return float(0.5 * 10**-self.decimals)

    @property
    def sample(self) -> Sample | None:
        """What is known about the runs; None without a deviation."""
        return None if self.std is None else Sample(self.mean, self.std, self.runs)

    def agrees_with(self, finer: Stated) -> bool:
        """Whether it is the same number as one printed with more decimals."""
        return self.decimals <= finer.decimals and round(finer.mean, self.decimals) == self.mean


Numbers = Mapping[str, Sequence[Stated]]
"""Numbers by metric; several are the same number from several places, or a contradiction."""


def _nothing(cell: Cell, scale: str) -> Numbers:
    return {}


@dataclass(frozen=True)
class Background:
    """What a report shows about an experiment besides its runs."""

    stated: Callable[[Cell, str], Numbers] = _nothing
    """The printed numbers for a cell at a scale."""
    by: str = ""
    """Whose numbers these are, as in "the paper"."""
    notes: tuple[str, ...] = ()
    command: str = ""
    """The command that makes the runs."""
    above: Callable[[str], str] = lambda scale: ""
    """Text above the table of results at a scale."""


def distinct(values: Iterable[Stated]) -> list[Stated]:
    """Distinct numbers, each once and as exact as printed, with all its sources."""
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
