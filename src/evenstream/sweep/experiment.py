"""An experiment: a table of runs, written down in a TOML file.

    name = "tau"                            # of the experiment: a-z, 0-9 and -
    title = "Strength of the adjustment"    # one line
    seeds = 5                               # runs of each cell
    metrics = ["A_T", "F_T"]                # what is reported, by its name in metrics.json
    rows = ["method"]                       # keys that make the rows; the others make the columns

    [settings]                              # the same for all runs
    memory = 200

    [grid]                                  # all combinations of these values are the cells
    method = ["er-las", "mir-las"]
    stream = ["c-digits", "b-digits"]
    "method:tau" = [0.5, 1, 2]

    [[when]]                                # further settings of those cells that match
    match = { method = "mir-las", stream = ["c-digits"] }
    set = { "method:subsample" = 50 }

    [[skip]]                                # combinations to leave out
    stream = "b-digits"
    "method:tau" = 2

    [[cell]]                                # a single further cell
    method = "er-las"
    stream = "c-digits"
    "method:tau" = 8

    [scale.quick]                           # the same, smaller: other seeds, settings and grid
    seeds = 1
    settings = { "stream:fraction" = 0.2 }
    grid = { stream = ["c-digits"] }

A key is a field of `RunConfig`, or `method:OPTION` or `stream:OPTION`. Of several settings the
last counts, in this order: the stream's protocol, `[settings]`, those of the scale, the keys of the
cell, each `[[when]]` that matches. Two more entries are optional: `source`, what the experiment
reproduces, and `base`, what its own scale is called ("full"). Scales are named like experiments.

Nothing here loads data, and only `check_options` and files of weights need PyTorch.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evenstream.errors import EvenstreamError, InputError, UnknownName
from evenstream.options_text import option_types, write_option
from evenstream.run.config import RunConfig
from evenstream.streams.base import Protocol
from evenstream.streams.catalogue import PROTOCOLS
from evenstream.streams.opening import absolute_name, read_spec, with_options

Value = str | int | float | bool

METRICS = (
    "A_T", "F_T", "A_AUC", "A_T_cbl", "A_T_cbl_classes", "F_T_literal", "F_T_mammoth", "BWT", "FWT",
    "ECE", "recency_bias", "prediction_share", "prequential_accuracy", "average_accuracy",
    "accuracy_matrix", "train_seconds", "eval_seconds", "samples_per_second",
)  # fmt: skip
"""Entries of `metrics.json` that an experiment may report."""

_FIELDS = option_types(RunConfig).keys() - {"seed", "weights_sha256"}
_TEXTS = {name for name, kind in option_types(RunConfig).items() if kind is str}
_WITH_OPTIONS = ("method", "stream")


@dataclass(frozen=True)
class Cell:
    """A cell of the table: one value for each key of the grid, in the grid's order."""

    keys: tuple[tuple[str, Value], ...]

    def __getitem__(self, key: str) -> Value:
        return dict(self.keys)[key]

    def __str__(self) -> str:
        return ", ".join(
            str(value) if key in _WITH_OPTIONS else f"{key} {value}" for key, value in self.keys
        )


@dataclass(frozen=True)
class Match:
    """Which cells are meant: those that have, for each key, one of the values."""

    wanted: Mapping[str, Sequence[Value]]

    def __call__(self, cell: Cell) -> bool:
        """Whether a cell is meant."""
        return all(cell[key] in values for key, values in self.wanted.items())


@dataclass(frozen=True)
class Rule:
    """Settings of the cells that match."""

    match: Match
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class Scale:
    """What is different at another scale; a grid's entries replace those of the same key."""

    seeds: int | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    when: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table of runs; `read_experiment` makes one from a file."""

    name: str
    title: str
    seeds: int
    metrics: tuple[str, ...]
    rows: tuple[str, ...]
    settings: Mapping[str, Value]
    grid: Mapping[str, Sequence[Value]]
    when: tuple[Rule, ...] = ()
    further: tuple[Cell, ...] = ()
    """Cells beside those of the grid."""
    skip: tuple[Match, ...] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict)
    """Other scales than the experiment's own."""
    base: str = "full"
    """What the experiment's own scale is called."""
    source: str = ""
    """What the experiment reproduces."""

    @property
    def scale_names(self) -> list[str]:
        """All scales, the experiment's own first."""
        return [self.base, *self.scales]

    def at(self, scale: str | None = None) -> Experiment:
        """The experiment at one of its scales (None: its own), which then is its only one."""
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
            scales={},
            base=scale,
        )

    def cells(self, scale: str | None = None) -> list[Cell]:
        """The cells of the table at a scale (None: the experiment's own)."""
        grid = list(_product(self.at(scale).grid))
        kept = [cell for cell in grid if not any(leave_out(cell) for leave_out in self.skip)]
        return [*kept, *self.further]

    def configs(
        self, cell: Cell, scale: str | None = None, seeds: int | None = None
    ) -> list[RunConfig]:
        """The runs of a cell, one for each seed: 0, 1, 2, ..."""
        scaled = self.at(scale)
        values = _resolve({**scaled.settings, **dict(cell.keys)}, cell, scaled.when)
        first = RunConfig.from_values(Path(self.name), {**values, "seed": 0})
        return [replace(first, seed=n) for n in range(scaled.seeds if seeds is None else seeds)]


def read_experiment(file: Traversable) -> Experiment:
    """Read and check an experiment's file; whether its methods exist is for `check_options`."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as TOML: {error}") from None
    try:
        experiment = _parse(values)
        _check(experiment)
    except EvenstreamError as error:
        raise InputError(f"{file}: {error}") from None
    return experiment


def check_options(experiment: Experiment, scale: str | None = None) -> None:
    """Refuse methods, networks and other options that no learner can have. Imports PyTorch."""
    from evenstream.run.preparation import make_learner

    runs = (experiment.configs(cell, scale, seeds=1)[0] for cell in experiment.cells(scale))
    for run in dict.fromkeys(
        replace(run, stream="") for run in runs
    ):  # no learner knows its stream
        make_learner(run)


def _product(grid: Mapping[str, Sequence[Value]]) -> Iterator[Cell]:
    for values in itertools.product(*grid.values()):
        yield Cell(tuple(zip(grid, values, strict=True)))


def _resolve(settings: Mapping[str, Value], cell: Cell, rules: Sequence[Rule]) -> dict[str, Value]:
    """Everything but the seed that a run's configuration needs."""
    values: dict[str, Any] = dict(settings)
    for rule in rules:
        if rule.match(cell):
            values |= rule.settings
    method, stream = (_taken_options(values, name) for name in _WITH_OPTIONS)
    values["method"] = _method_with(values["method"], method)
    values["stream"] = absolute_name(with_options(values["stream"], stream))
    if values.get("weights"):
        from evenstream.run.initial_weights import identified

        values |= identified(Path(values["weights"]))
    protocol = _protocol(values)
    return {entry.name: getattr(protocol, entry.name) for entry in fields(protocol)} | values


def _taken_options(values: dict[str, Any], name: str) -> list[str]:
    """Take the entries `name:OPTION` out, written as `OPTION=VALUE`."""
    keys = [key for key in values if key.startswith(f"{name}:")]
    return [write_option(key.partition(":")[2], values.pop(key)) for key in keys]


def _method_with(spec: str, options: Sequence[str]) -> str:
    written, at, rule = spec.partition("@")
    name, _, own = written.partition(":")
    every = ",".join(filter(None, [own, *options]))
    return name + (f":{every}" if every else "") + at + rule


def _protocol(values: Mapping[str, Any]) -> Protocol:
    """The defaults that go with the stream; those of data without a name are incomplete."""
    spec = read_spec(
        values["stream"],
        tasks=values.get("tasks") or None,
        class_order=values.get("class_order", "label"),
    )
    usual = PROTOCOLS.get(str(spec.dataset))
    if usual is None and "network" not in values:
        raise InputError(
            f"say which network is to learn {values['stream']}: [settings] needs an entry "
            'such as network = "mlp-norm" (tables) or "convnet" (images)'
        )
    return spec.scenario.protocol(usual or Protocol())


# ---- reading ---------------------------------------------------------------------------------

_ENTRIES = {
    "name": str, "title": str, "source": str, "base": str, "seeds": int, "metrics": list,
    "rows": list, "settings": dict, "grid": dict, "when": list, "cell": list, "skip": list,
    "scale": dict,
}  # fmt: skip
_NEEDED = ("name", "title", "seeds", "metrics", "rows", "grid")
_SCALE_ENTRIES = {name: _ENTRIES[name] for name in ("seeds", "settings", "grid", "when")}
_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "a table"}


def _parse(values: dict[str, Any]) -> Experiment:
    _check_entries("", values, _ENTRIES)
    for name in _NEEDED:
        if name not in values:
            raise InputError(f"it has no entry {name!r}")
    grid = _lists("grid", values["grid"])
    return Experiment(
        name=values["name"],
        title=values["title"],
        seeds=values["seeds"],
        metrics=tuple(values["metrics"]),
        rows=tuple(values["rows"]),
        settings=_settings("settings", values.get("settings", {})),
        grid=grid,
        when=_rules("when", values.get("when", []), grid),
        further=tuple(_cell(entry, grid) for entry in values.get("cell", [])),
        skip=tuple(_match("skip", entry, grid) for entry in values.get("skip", [])),
        scales={name: _scale(name, entry, grid) for name, entry in values.get("scale", {}).items()},
        base=values.get("base", "full"),
        source=values.get("source", ""),
    )


def _scale(name: str, values: Any, grid: Mapping[str, Sequence[Value]]) -> Scale:
    where = f"scale.{name}"
    _check_entries(where, values, _SCALE_ENTRIES)
    own = _lists(f"{where}.grid", values.get("grid", {}))
    _refuse_others(f"{where}.grid", own, grid)
    return Scale(
        values.get("seeds"),
        _settings(f"{where}.settings", values.get("settings", {})),
        own,
        _rules(f"{where}.when", values.get("when", []), grid),
    )


def _rules(where: str, entries: Any, grid: Mapping[str, Sequence[Value]]) -> tuple[Rule, ...]:
    found = []
    for entry in entries:
        _check_entries(where, entry, {"match": dict, "set": dict})
        if len(entry) != 2:
            raise InputError(f"each [[{where}]] needs an entry `match` and an entry `set`")
        match = _match(f"{where}.match", entry["match"], grid)
        found.append(Rule(match, _settings(f"{where}.set", entry["set"], of_cell=True)))
    return tuple(found)


def _match(where: str, values: Any, grid: Mapping[str, Sequence[Value]]) -> Match:
    _check_entries(where, values, dict.fromkeys(grid))
    listed = {key: v if isinstance(v, list) else [v] for key, v in values.items()}
    return Match(_lists(where, listed))


def _cell(values: Any, grid: Mapping[str, Sequence[Value]]) -> Cell:
    _check_entries("cell", values, dict.fromkeys(grid))
    missing = [key for key in grid if key not in values]
    if missing:
        raise InputError(f"a [[cell]] needs every key of the grid, and has no {missing[0]!r}")
    return Cell(tuple((key, _value("cell", key, values[key])) for key in grid))


def _settings(where: str, values: Any, of_cell: bool = False) -> dict[str, Value]:
    """Settings by key; only those of a cell may choose another method or stream."""
    for key in values:
        _check_key(where, key)
        if key in _WITH_OPTIONS and not of_cell:
            raise InputError(f"{where}: {key} belongs into [grid]")
    return {key: _value(where, key, value) for key, value in values.items()}


def _lists(where: str, values: dict[str, Any]) -> dict[str, tuple[Value, ...]]:
    for key, value in values.items():
        _check_key(where, key)
        if not isinstance(value, list) or not value:
            raise InputError(f"{where}: {key} must be a list of values, not {value!r}")
    return {key: tuple(_value(where, key, v) for v in value) for key, value in values.items()}


def _value(where: str, key: str, value: Any) -> Value:
    if key in _TEXTS and not isinstance(value, str):
        raise InputError(f"{where}: {key} must be a text, not {value!r}")
    if not isinstance(value, str | int | float):
        raise InputError(f"{where}: {key} must be a text, a number, true or false, not {value!r}")
    return value


def _check_entries(where: str, values: Any, known: Mapping[str, type | None]) -> None:
    """Refuse entries that are not known, or of another type."""
    if not isinstance(values, dict):
        raise InputError(f"{where} must be a table, not {values!r}")
    _refuse_others(where, values, known)
    for name, value in values.items():
        kind = known[name]
        if kind is not None and type(value) is not kind:
            prefix = f"{where}." if where else ""
            raise InputError(f"{prefix}{name} must be {_NAMES[kind]}, not {value!r}")


def _refuse_others(where: str, names: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise UnknownName(f"entry of {where}" if where else "entry", name, known)


def _check_key(where: str, key: str) -> None:
    owner, colon, option = key.partition(":")
    if not (owner in _WITH_OPTIONS and option if colon else key in _FIELDS):
        raise UnknownName(f"key in {where}", key, [*_FIELDS, "method:OPTION", "stream:OPTION"])


# ---- checking --------------------------------------------------------------------------------


def _check(experiment: Experiment) -> None:
    """Refuse what is well-formed and still makes no sense."""
    _check_name("name", experiment.name)
    if experiment.name == "index":
        raise InputError("name must not be 'index', which is what the page of a report is called")
    if not experiment.title.strip() or "\n" in experiment.title:
        raise InputError("title must be one line")
    for name in _WITH_OPTIONS:
        if name not in experiment.grid:
            raise InputError(f"the grid needs the key {name!r}")
    _check_choice("metrics", experiment.metrics, METRICS)
    _check_choice("rows", experiment.rows, tuple(experiment.grid))
    _check_name("base", experiment.base)
    for scale in experiment.scales:
        _check_name("the name of a scale", scale)
    if experiment.base in experiment.scales:
        raise InputError(f"scale.{experiment.base} is the experiment's own scale already")
    for scale in experiment.scale_names:
        _check_scale(experiment, scale)
    _check_matches(experiment)


def _check_name(what: str, name: str) -> None:
    """Refuse a name that could not be part of the name of a file."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise InputError(f"{what} must consist of a-z, 0-9 and single -, not {name!r}")


def _check_choice(entry: str, chosen: Sequence[Any], known: Sequence[str]) -> None:
    if not chosen:
        raise InputError(f"{entry} must not be empty")
    for number, name in enumerate(chosen):
        if name not in known:
            raise UnknownName(f"name in {entry}", str(name), known)
        if name in chosen[:number]:
            raise InputError(f"{entry} has {name!r} twice")


def _check_scale(experiment: Experiment, scale: str) -> None:
    where = "" if scale == experiment.base else f"scale.{scale}: "
    if experiment.at(scale).seeds < 1:
        raise InputError(f"{where}seeds must be 1 or more")
    cells = experiment.cells(scale)
    if not cells:
        raise InputError(f"{where}there are no cells; [[skip]] leaves all of them out")
    seen = set()
    for cell in cells:
        if cell in seen:
            raise InputError(f"{where}the cell ({cell}) is there twice")
        seen.add(cell)
        try:
            experiment.configs(cell, scale, seeds=1)
        except EvenstreamError as error:
            raise InputError(f"{where}in the cell ({cell}): {error}") from None


def _check_matches(experiment: Experiment) -> None:
    """Every match must match something at some scale, or it is a mistake."""
    scales = [experiment.at(scale) for scale in experiment.scale_names]
    cells = [cell for scaled in scales for cell in (*_product(scaled.grid), *scaled.further)]
    rules = [rule for scaled in scales for rule in scaled.when]
    for entry, match in [
        *(("skip", match) for match in experiment.skip),
        *(("when", rule.match) for rule in rules),
    ]:
        if not any(map(match, cells)):
            wanted = " and ".join(f"{key} = {list(v)}" for key, v in match.wanted.items())
            raise InputError(f"[[{entry}]] for {wanted} matches no cell")
