"""An experiment: a table of runs. `experiment_file` reads one from a file and explains its parts.

Data is loaded only to choose a network for unnamed data; only the checks and weights files need
PyTorch.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenstream.choosing import made_for
from evenstream.errors import DataError, InputError, UnknownName
from evenstream.run.config import RunConfig
from evenstream.streams.catalogue import PROTOCOLS
from evenstream.streams.opening import absolute_name, read_spec, with_options
from evenstream.streams.stream import Protocol
from evenstream.text import MethodText, OptionKey, write_option

Value = str | int | float | bool

WITH_OPTIONS = ("method", "stream")
"""Keys whose values take options: `method:OPTION` and `stream:OPTION` are also keys."""
TO_BE_GIVEN = "?"
"""As `weights`: some file, to be named by the command that makes the runs. As the digest of a
cell's weights: any file will do."""


@dataclass(frozen=True)
class Cell:
    """A cell of the table: one value for each key of the grid, in the grid's order."""

    keys: tuple[tuple[str, Value], ...]

    def __getitem__(self, key: str) -> Value:
        return dict(self.keys)[key]

    def __str__(self) -> str:
        return ", ".join(
            str(value) if key in WITH_OPTIONS else f"{key} {value}" for key, value in self.keys
        )


@dataclass(frozen=True)
class Match:
    """Selects cells that have, for each key, one of the values."""

    wanted: Mapping[str, Sequence[Value]]

    def __call__(self, cell: Cell) -> bool:
        """Whether a cell is selected."""
        return all(cell[key] in values for key, values in self.wanted.items())


@dataclass(frozen=True)
class Rule:
    """Settings of the cells that match."""

    match: Match
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class Scale:
    """The differences at another scale; grid entries replace those with the same key."""

    seeds: int | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    when: tuple[Rule, ...] = ()
    inferred: bool | None = None


@dataclass(frozen=True)
class Experiment:
    """A table of runs; `read_experiment` reads one from a file."""

    name: str
    title: str
    seeds: int
    metrics: tuple[str, ...]
    rows: tuple[str, ...]
    settings: Mapping[str, Value]
    grid: Mapping[str, Sequence[Value]]
    when: tuple[Rule, ...] = ()
    further: tuple[Cell, ...] = ()
    """Cells in addition to those of the grid."""
    skip: tuple[Match, ...] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict)
    """Scales other than the experiment's own."""
    base: str = "full"
    """Name of the experiment's own scale."""
    source: str = ""
    """What the experiment reproduces."""
    inferred: bool = False
    """Whether that does not state these settings, so that reports call the protocol inferred."""
    chosen_on: tuple[Match, ...] = ()
    """Cells on which a setting was chosen; reports give no verdict on them."""
    baseline: Mapping[str, Value] = field(default_factory=dict)
    """Values of keys with which reports compare all others, seed by seed."""
    budget: float | None = None
    """Budget in multiples of ER-LAS's image passes; reports mark methods that take more."""
    jobs: int = 0
    """Maximum number of runs at the same time; 0 means as many as the command requests."""
    first_seed: int = 0
    """The seed of each cell's first run; the others count up from it."""

    @property
    def scale_names(self) -> list[str]:
        """All scales, the experiment's own first."""
        return [self.base, *self.scales]

    def at_once(self, asked: int) -> int:
        """Number of runs at the same time if a command requests this many (0: one per core)."""
        return min(asked or self.jobs, self.jobs) if self.jobs else asked

    def at(self, scale: str | None = None) -> Experiment:
        """The experiment at one of its scales (None: its own), which becomes its only one."""
        if scale is None or scale == self.base:
            return replace(self, scales={})
        if scale not in self.scales:
            raise UnknownName(f"scale of {self.name}", scale, self.scale_names)
        other = self.scales[scale]
        return replace(
            self,
            seeds=self.seeds if other.seeds is None else other.seeds,
            settings={**self.settings, **other.settings},
            grid={**self.grid, **other.grid},
            when=(*self.when, *other.when),
            inferred=self.inferred if other.inferred is None else other.inferred,
            scales={},
            base=scale,
        )

    def overriding(self, settings: Mapping[str, Value]) -> Experiment:
        """The same with settings that override all others, in every cell and at every scale."""
        last = Rule(Match({}), settings)
        scales = {
            name: replace(scale, when=(*scale.when, last)) for name, scale in self.scales.items()
        }
        return replace(self, when=(*self.when, last), scales=scales)

    def cells(self, scale: str | None = None) -> list[Cell]:
        """The cells of the table at a scale (None: the experiment's own)."""
        grid = self.crossed(scale)
        kept = [cell for cell in grid if not any(leave_out(cell) for leave_out in self.skip)]
        return [*kept, *self.further]

    def crossed(self, scale: str | None = None) -> list[Cell]:
        """All combinations of the grid's values, including those to leave out."""
        grid = self.at(scale).grid
        combinations = itertools.product(*grid.values())
        return [Cell(tuple(zip(grid, values, strict=True))) for values in combinations]

    def given(self, cell: Cell, scale: str | None = None) -> dict[str, Value]:
        """The settings that the experiment gives a cell; all others have their defaults."""
        scaled = self.at(scale)
        values = {**scaled.settings, **dict(cell.keys)}
        for rule in scaled.when:
            if rule.match(cell):
                values |= rule.settings
        return values

    def configs(
        self, cell: Cell, scale: str | None = None, seeds: int | None = None
    ) -> list[RunConfig]:
        """The runs of a cell, one for each seed: `first_seed`, the next, ..."""
        scaled, values = self.at(scale), resolved(self.given(cell, scale))
        first = RunConfig.from_values(Path(self.name), {**values, "seed": self.first_seed})
        count = scaled.seeds if seeds is None else seeds
        return [replace(first, seed=self.first_seed + n) for n in range(count)]


def check_options(runs: Iterable[RunConfig]) -> None:
    """Reject methods, networks and other options that no learner can have. Imports PyTorch.

    Weights files are read, so that a damaged or missing one is reported here and not by every run.
    """
    from evenstream.networks.weights import read_weights
    from evenstream.run.preparation import make_learner

    runs = list(runs)
    for file in dict.fromkeys(run.weights for run in runs if run.weights):
        read_weights(file)
    # A learner does not know its stream, and seeds make no difference.
    for run in dict.fromkeys(replace(run, stream="", seed=0) for run in runs):
        if run.weights_sha256 == TO_BE_GIVEN:
            raise InputError(
                "these runs start from weights: name the file with --weights (`evenstream "
                "pretrain` makes one), or say --weights none to start from scratch, which is "
                "another experiment"
            )
        make_learner(run)


def check_data(runs: Iterable[RunConfig]) -> None:
    """Reject runs whose data is not on this machine, and say how to get it. Reads none of it."""
    from evenstream.data import dataset_info, list_datasets
    from evenstream.data.locate import data_root, how_to_get

    datasets = dict.fromkeys(read_spec(run.stream).dataset for run in runs)
    here = {row.name for row in list_datasets() if row.present}
    missing = [
        name
        for name in datasets
        if (not name.exists() if isinstance(name, Path) else name not in here)
    ]
    if not missing:
        return
    name = missing[0]
    how = (
        f"there is no {name}"
        if isinstance(name, Path)
        else how_to_get(dataset_info(name), data_root(None))
    )
    others = "; or choose cells of other data with --cells" if len(missing) < len(datasets) else ""
    raise DataError(how + others)


def resolved(given: Mapping[str, Value]) -> dict[str, Value]:
    """Everything that a run's configuration needs, except the seed."""
    values: dict[str, Any] = dict(given)
    method, stream = (_taken_options(values, name) for name in WITH_OPTIONS)
    values["method"] = str(MethodText.read(values["method"]).with_options(*method))
    values["stream"] = absolute_name(with_options(values["stream"], stream))
    if values.get("weights") == TO_BE_GIVEN:
        values |= {"weights": None, "weights_sha256": TO_BE_GIVEN}
    elif values.get("weights"):
        from evenstream.run.initial_weights import identified

        values |= identified(Path(values["weights"]))
    protocol = _protocol(values)
    return vars(protocol) | made_for(values["method"], values) | values


def _taken_options(values: dict[str, Any], name: str) -> list[str]:
    """Remove the entries `name:OPTION` and return them as `OPTION=VALUE`."""
    keys = {key: OptionKey.read(key) for key in values}
    return [
        write_option(key.option, values.pop(text))
        for text, key in keys.items()
        if key.owner == name and key.option
    ]


def _protocol(values: Mapping[str, Any]) -> Protocol:
    """The defaults of the stream; those of unnamed data are incomplete."""
    spec = read_spec(
        values["stream"],
        tasks=values.get("tasks") or None,
        class_order=values.get("class_order", "label"),
    )
    usual = PROTOCOLS.get(str(spec.dataset))
    if usual is None and "network" not in values:
        usual = _chosen(values["stream"])
    return spec.scenario.protocol(usual or Protocol())


@functools.cache
def _chosen(stream: str) -> Protocol:
    """The defaults for unnamed data, which has to be inspected."""
    from evenstream.streams import open_stream

    return open_stream(stream).protocol
