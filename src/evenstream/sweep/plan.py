"""The runs of a sweep: an experiment at a scale, or some of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenstream.errors import InputError, UnknownName
from evenstream.run.config import RunConfig
from evenstream.sweep.experiment import Cell, Experiment, Value


@dataclass(frozen=True)
class Plan:
    """The cells to fill, and the runs of each."""

    experiment: Experiment
    scale: str
    cells: Mapping[Cell, Sequence[RunConfig]]

    @property
    def name(self) -> str:
        """The experiment's name, with its scale unless that is its own."""
        own = self.scale == self.experiment.base
        return self.experiment.name if own else f"{self.experiment.name}_{self.scale}"

    @property
    def title(self) -> str:
        """The experiment's title; numbers of another scale are labelled."""
        own = self.scale == self.experiment.base
        return self.experiment.title + ("" if own else f" (at the scale {self.scale!r})")

    @property
    def label(self) -> str:
        """The suffix of a single number from a scale other than the experiment's own."""
        return "" if self.scale == self.experiment.base else f", at {self.scale}"

    def runs(self) -> list[RunConfig]:
        """All runs, seed by seed, so that early results are already paired."""
        rounds = zip(*self.cells.values(), strict=True)
        return list(dict.fromkeys(config for round_ in rounds for config in round_))


def make_plan(
    experiment: Experiment,
    scale: str | None = None,
    seeds: int | None = None,
    only: Sequence[str] = (),
    overrides: Mapping[str, Value] | None = None,
) -> Plan:
    """The plan for an experiment.

    Args:
        experiment: what to run.
        scale: one of its scales; None is its own.
        seeds: replaces the experiment's number of seeds.
        only: `KEY=VALUE` each, to choose cells that have, for each named key, one of its values.
        overrides: settings of all runs that override the experiment's.
    """
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds must be 1 or more, got {seeds}")
    scale = experiment.base if scale is None else scale
    where = "" if scale == experiment.base else f" at the scale {scale}"
    cells = _chosen(experiment.cells(scale), only, where)
    changed = experiment.overriding(overrides or {})
    return Plan(experiment, scale, {cell: changed.configs(cell, scale, seeds) for cell in cells})


def _chosen(cells: Sequence[Cell], only: Iterable[str], where: str) -> list[Cell]:
    wanted: dict[str, set[str]] = {}
    for text in only:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--cells takes KEY=VALUE, as in method=er-las; got {text!r}")
        keys = dict(cells[0].keys)
        if key not in keys:
            raise UnknownName("key of the cells", key, keys)
        values = {str(cell[key]) for cell in cells}
        if value not in values:
            raise UnknownName(f"{key}{where}", value, values)
        wanted.setdefault(key, set()).add(value)
    found = [cell for cell in cells if all(str(cell[k]) in v for k, v in wanted.items())]
    if not found:
        raise InputError(f"no cell has {' and '.join(only)}")
    return found
