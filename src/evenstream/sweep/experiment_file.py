"""The file of an experiment: a table of runs in TOML.

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

    [[chosen_on]]                           # cells on which a setting was chosen: no verdict
    method = "mir-las"

    [[cell]]                                # a single further cell
    method = "er-las"
    stream = "c-digits"
    "method:tau" = 8
    steps = 4                               # a key of its own: all other cells have the usual value

    [scale.quick]                           # the same, smaller: other seeds, settings and grid
    seeds = 1
    settings = { "stream:fraction" = 0.2 }
    grid = { stream = ["c-digits"] }

A key is a field of `RunConfig`, or `method:OPTION` or `stream:OPTION`. If there are several
settings, the last one wins, in this order: the stream's protocol, `[settings]`, those of the scale,
the keys of the cell, each `[[when]]` that matches. Optional entries: `first_seed`, the first seed
of each cell (0); `source`, what the experiment reproduces; `inferred`, whether that leaves the
settings open, so that they are not its own (also of a scale); `base`, the name of its own scale
("full"); `baseline`, grid values with which reports compare the others (`{ method = "er" }`);
`jobs`, the maximum number of runs at the same time, whatever the command says (1 if times are
compared); and `budget`, such as "1.1x": reports mark methods that take more image passes than this
multiple of ER-LAS's. Only the grid is required: `name` defaults to that of the file, `title` to the
name, and the rest to 5 seeds, A_T and F_T, and a row for each method. Scales are named like
experiments. `weights = "?"` stands for a file that the command names with `--weights`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Any, get_args

from evenstream.errors import EvenstreamError, InputError, UnknownName
from evenstream.measures import ENTRIES
from evenstream.run.config import RunConfig
from evenstream.streams.stream import Protocol
from evenstream.sweep.experiment import (
    WITH_OPTIONS,
    Cell,
    Experiment,
    Match,
    Rule,
    Scale,
    Value,
)
from evenstream.text import OptionKey, option_types, read_budget

LISTS = ("prediction_share", "average_accuracy", "accuracy_matrix")
"""Entries of `metrics.json` that an experiment may report, besides single numbers."""

_MEASURED_IF = {"A_AUC": "eval_every", "F_T_literal": "eval_future", "FWT": "eval_future"}
"""Metrics that a run has only with a certain setting."""

_FIELDS = option_types(RunConfig).keys() - {"seed", "weights_sha256"}
_USUAL = {
    field.name: field.default
    for field in fields(RunConfig)
    if field.name not in option_types(Protocol) and isinstance(field.default, Value)
}
"""What a run has unless told otherwise, where that does not depend on the stream."""
_TEXTS = {name for name, kind in option_types(RunConfig).items() if str in (kind, *get_args(kind))}


def read_experiment(file: Traversable) -> Experiment:
    """Read and check an experiment's file; `check_options` checks whether its methods exist."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read as TOML: {error}") from None
    try:
        experiment = _parse(values, unnamed=_name_of(file.name))
        _check(experiment)
    except EvenstreamError as error:
        raise InputError(f"{file}: {error}") from None
    return experiment


# ---- parsing ---------------------------------------------------------------------------------

_ENTRIES = {
    "name": str, "title": str, "source": str, "base": str, "seeds": int, "jobs": int,
    "budget": str, "first_seed": int, "inferred": bool, "chosen_on": list,
    "metrics": list, "rows": list, "baseline": dict, "settings": dict, "grid": dict, "when": list,
    "cell": list, "skip": list, "scale": dict,
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {"seeds": 5, "metrics": ["A_T", "F_T"], "rows": ["method"]}
_SCALE_ENTRIES = {
    name: _ENTRIES[name] for name in ("seeds", "settings", "grid", "when", "inferred")
}
_NAMES = {
    bool: "true or false",
    str: "text",
    int: "a whole number",
    list: "a list",
    dict: "a table",
}


def _parse(values: dict[str, Any], unnamed: str) -> Experiment:
    _check_entries("", values, _ENTRIES)
    if "grid" not in values:
        raise InputError("it needs a table [grid], with the keys method and stream")
    values = {"name": unnamed, **_DEFAULTS, **values}
    settings = _settings("settings", values.get("settings", {}))
    crossed, cells = _lists("grid", values["grid"]), values.get("cell", [])
    added = _added(cells, crossed, settings)
    grid = {**crossed, **added}
    return Experiment(
        name=values["name"],
        title=values.get("title", values["name"]),
        seeds=values["seeds"],
        metrics=tuple(values["metrics"]),
        rows=tuple(values["rows"]),
        settings=settings,
        grid=grid,
        when=_rules("when", values.get("when", []), grid),
        further=tuple(_cell(entry, grid, added) for entry in cells),
        skip=tuple(_match("skip", entry, grid) for entry in values.get("skip", [])),
        scales={
            name: _scale(name, entry, grid, added)
            for name, entry in values.get("scale", {}).items()
        },
        base=values.get("base", "full"),
        source=values.get("source", ""),
        inferred=values.get("inferred", False),
        chosen_on=tuple(_match("chosen_on", e, grid) for e in values.get("chosen_on", [])),
        baseline=_baseline(values.get("baseline", {}), grid),
        jobs=values.get("jobs", 0),
        first_seed=values.get("first_seed", 0),
        budget=read_budget(values["budget"]) if "budget" in values else None,
    )


def _baseline(values: dict[str, Any], grid: Mapping[str, Sequence[Value]]) -> dict[str, Value]:
    _refuse_others("baseline", values, grid)
    for key, value in values.items():
        if value not in grid[key]:
            raise UnknownName(f"{key} in baseline", str(value), map(str, grid[key]))
    return values


def _added(
    cells: Sequence[Any], grid: Mapping[str, Any], settings: Mapping[str, Value]
) -> dict[str, tuple[Value, ...]]:
    """Keys of single cells that are none of the grid, with the value that all others have."""
    found: dict[str, tuple[Value, ...]] = {}
    for key in dict.fromkeys(key for cell in cells if isinstance(cell, dict) for key in cell):
        if key not in grid:
            _check_key("cell", key)
            if key not in settings and key not in _USUAL:
                raise InputError(f"a [[cell]] has {key}: say in [settings] what all others have")
            found[key] = (settings.get(key, _USUAL.get(key, "")),)
    return found


def _scale(
    name: str,
    values: Any,
    grid: Mapping[str, Sequence[Value]],
    added: Mapping[str, tuple[Value, ...]],
) -> Scale:
    where = f"scale.{name}"
    _check_entries(where, values, _SCALE_ENTRIES)
    own = _lists(f"{where}.grid", values.get("grid", {}))
    _refuse_others(f"{where}.grid", own, grid)
    settings = _settings(f"{where}.settings", values.get("settings", {}))
    return Scale(
        values.get("seeds"),
        settings,
        {**{key: (settings[key],) for key in added if key in settings}, **own},
        _rules(f"{where}.when", values.get("when", []), grid),
        values.get("inferred"),
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


def _cell(
    values: Any,
    grid: Mapping[str, Sequence[Value]],
    added: Mapping[str, tuple[Value, ...]],
) -> Cell:
    _check_entries("cell", values, dict.fromkeys(grid))
    values = {**{key: usual for key, (usual,) in added.items()}, **values}
    missing = [key for key in grid if key not in values]
    if missing:
        raise InputError(f"a [[cell]] needs every key of the grid, and has no {missing[0]!r}")
    return Cell(tuple((key, _value("cell", key, values[key])) for key in grid))


def _settings(where: str, values: Any, of_cell: bool = False) -> dict[str, Value]:
    """Settings by key; only those of a cell may choose a different method or stream."""
    for key in values:
        _check_key(where, key)
        if key in WITH_OPTIONS and not of_cell:
            raise InputError(f"{where}: {key} belongs into [grid]")
    return {key: _value(where, key, value) for key, value in values.items()}


def _lists(where: str, values: dict[str, Any]) -> dict[str, tuple[Value, ...]]:
    for key, value in values.items():
        _check_key(where, key)
        if not isinstance(value, list) or not value:
            raise InputError(f"{where}: {key} must be a list of one value or more, not {value!r}")
    return {key: tuple(_value(where, key, v) for v in value) for key, value in values.items()}


def _value(where: str, key: str, value: Any) -> Value:
    if key in _TEXTS and not isinstance(value, str):
        raise InputError(f"{where}: {key} must be a text, not {value!r}")
    if not isinstance(value, str | int | float):
        raise InputError(f"{where}: {key} must be a text, a number, true or false, not {value!r}")
    return value


def _check_entries(where: str, values: Any, known: Mapping[str, type | None]) -> None:
    """Reject entries that are unknown or of the wrong type."""
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
    said = OptionKey.read(key)
    if not (key in _FIELDS if said.option is None else said.owner in WITH_OPTIONS and said.option):
        raise UnknownName(f"key in {where}", key, [*_FIELDS, "method:OPTION", "stream:OPTION"])


# ---- checking --------------------------------------------------------------------------------


def _check(experiment: Experiment) -> None:
    """Reject what is well-formed but makes no sense."""
    _check_name("name", experiment.name)
    if experiment.name == "index":
        raise InputError("name must not be 'index', which is what the page of a report is called")
    if not experiment.title.strip() or "\n" in experiment.title:
        raise InputError("title must be one line")
    for name in WITH_OPTIONS:
        if name not in experiment.grid:
            raise InputError(f"the grid needs the key {name!r}")
    _check_choice("metrics", experiment.metrics, (*ENTRIES, *LISTS), ENTRIES.hint)
    _check_choice("rows", experiment.rows, tuple(experiment.grid))
    if experiment.jobs < 0:
        raise InputError("jobs must be 1 or more, or 0 for as many as the command asks for")
    if experiment.first_seed < 0:
        raise InputError("first_seed must be 0 or more")
    _check_name("base", experiment.base)
    for scale in experiment.scales:
        _check_name("the name of a scale", scale)
    if experiment.base in experiment.scales:
        raise InputError(f"scale.{experiment.base} is the experiment's own scale already")
    for scale in experiment.scale_names:
        _check_scale(experiment, scale)
    _check_matches(experiment)


def _name_of(file: str) -> str:
    """The name of an experiment after its file: my_Sweep.toml is my-sweep."""
    return re.sub("[^a-z0-9]+", "-", PurePath(file).stem.lower()).strip("-")


def _check_name(what: str, name: str) -> None:
    """Reject a name that cannot be part of a file name."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise InputError(f"{what} must consist of a-z, 0-9 and single -, not {name!r}")


def _check_choice(entry: str, chosen: Sequence[Any], known: Sequence[str], hint: str = "") -> None:
    if not chosen:
        raise InputError(f"{entry} must not be empty")
    for number, name in enumerate(chosen):
        if name not in known:
            raise UnknownName(f"name in {entry}", str(name), known, hint)
        if name in chosen[:number]:
            raise InputError(f"{entry} has {name!r} twice")


def _check_scale(experiment: Experiment, scale: str) -> None:
    where = "" if scale == experiment.base else f"scale.{scale}: "
    if experiment.at(scale).seeds < 1:
        raise InputError(f"{where}seeds must be 1 or more")
    cells = experiment.cells(scale)
    if not cells:
        raise InputError(f"{where}there are no cells; [[skip]] leaves all of them out")
    found: dict[Cell, RunConfig] = {}
    for cell in cells:
        if cell in found:
            raise InputError(f"{where}the cell ({cell}) is there twice")
        try:
            (found[cell],) = experiment.configs(cell, scale, seeds=1)
        except EvenstreamError as error:
            raise InputError(f"{where}in the cell ({cell}): {error}") from None
    for metric, field in _MEASURED_IF.items():
        if metric in experiment.metrics and not any(getattr(c, field) for c in found.values()):
            raise InputError(f"{where}no run would have {metric}: set {field} in [settings]")


def _check_matches(experiment: Experiment) -> None:
    """Every match must match something at some scale, or it is a mistake."""
    scales = [experiment.at(scale) for scale in experiment.scale_names]
    cells = [cell for scaled in scales for cell in (*scaled.crossed(), *scaled.further)]
    rules = [rule for scaled in scales for rule in scaled.when]
    for entry, match in [
        *(("skip", match) for match in experiment.skip),
        *(("chosen_on", match) for match in experiment.chosen_on),
        *(("when", rule.match) for rule in rules),
    ]:
        if not any(map(match, cells)):
            wanted = " and ".join(f"{key} = {list(v)}" for key, v in match.wanted.items())
            raise InputError(f"[[{entry}]] for {wanted} matches no cell")
