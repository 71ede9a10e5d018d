"""Samples of a data set in the order a stream asks for them, wherever they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evenstream.data.dataset import Indices, Inputs


@dataclass(frozen=True, eq=False)
class Read:
    """Some samples, read."""

    rows: Indices
    """Positions of the samples in the data set, without those that could not be read."""
    x: Inputs
    """Their inputs, in the same order."""
    skipped: tuple[str, ...] = ()
    """What could not be read, and why; only from files that are set to skip such samples."""


def read_in_order(x: Inputs, wanted: Iterable[Indices]) -> Iterator[Read]:
    """Read groups of samples, one `Read` for each, in order."""
    for rows in wanted:
        yield Read(rows, x[rows])
