"""Reads the data about the paper. Only `printed_beside` imports PyTorch."""

from __future__ import annotations

import csv
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from evenstream.errors import UnknownName
from evenstream.run.sameness import run_key
from evenstream.sweep.experiment import Cell, Experiment, Value
from evenstream.sweep.experiment_file import read_experiment

_FOLDER = files("evenstream.paper")
_NOT_KEYS = ("metric", "mean", "std", "source")


@dataclass(frozen=True)
class Printed:
    """A number that the paper prints."""

    keys: Mapping[str, Value]
    """Its cell: stream, memory, method and whatever else the table varies."""
    metric: str
    """As in metrics.json; with `_gain` for the gain over the method without LAS, or `_ratio` to
    ER-LAS."""
    mean: float
    std: float | None
    decimals: int
    """Number of decimals of the printed mean."""
    std_decimals: int
    source: str
    """The table, or the figure discussed in the text, by number: "Table 2"."""

    def belongs_to(self, cell: Cell) -> bool:
        """Whether all keys that the number shares with the cell have the same value."""
        keys = dict(cell.keys)
        return all(keys.get(key, value) == value for key, value in self.keys.items())


@dataclass(frozen=True)
class Description:
    """A table or figure of the paper that describes streams and needs no runs."""

    name: str
    title: str
    source: str
    streams: tuple[str, ...]


@cache
def experiments() -> dict[str, Experiment]:
    """The experiments by name."""
    paths = [path for path in (_FOLDER / "experiments").iterdir() if path.name.endswith(".toml")]
    found = [read_experiment(path) for path in sorted(paths, key=lambda path: path.name)]
    return {experiment.name: experiment for experiment in found}


@cache
def descriptions() -> dict[str, Description]:
    """The descriptions by name."""
    entries = _toml("descriptions.toml")["description"]
    found = [Description(**{**entry, "streams": tuple(entry["streams"])}) for entry in entries]
    return {description.name: description for description in found}


@cache
def printed(name: str) -> tuple[Printed, ...]:
    """The numbers that the paper prints for an experiment; none for some figures."""
    if name not in experiments():
        raise UnknownName("experiment", name, experiments())
    return tuple(map(_printed, printed_lines(name)))


def printed_lines(name: str) -> list[dict[str, str]]:
    """The raw lines of an experiment's or description's file of printed numbers."""
    file = _FOLDER / "printed" / f"{name}.csv"
    if not file.is_file():
        return []
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def printed_beside(experiment: Experiment, cell: Cell) -> dict[str, list[Printed]]:
    """The numbers that the paper prints for a cell, by metric, in any of its tables.

    Two tables describe the same cell if its runs at the paper's own scale are the same. Several
    numbers for one metric are the same number repeated, or a contradiction.
    """
    return _by_run().get(_run(experiment, cell), {})


def printed_runs() -> int:
    """The number of runs behind the printed means and deviations."""
    return int(all_notes()["runs"])


def notes(name: str) -> list[str]:
    """Where the paper contradicts itself about an experiment, or leaves something open."""
    return [note["text"].strip() for note in all_notes()["note"] if name in note["experiments"]]


def above_tables(name: str, scale: str) -> str:
    """What readers of an experiment's results at a scale should know before comparing rows."""
    return " ".join(
        note["above_tables"].strip()
        for note in all_notes()["note"]
        if name in note["experiments"] and "above_tables" in note
        if scale in note.get("only_at", {}).get(name, [scale])
    )


@cache
def _by_run() -> dict[str, dict[str, list[Printed]]]:
    found: dict[str, dict[str, list[Printed]]] = defaultdict(lambda: defaultdict(list))
    for name, experiment in experiments().items():
        for cell in experiment.cells():
            for value in printed(name):
                if value.belongs_to(cell):
                    found[_run(experiment, cell)][value.metric].append(value)
    return {run: dict(values) for run, values in found.items()}


def _run(experiment: Experiment, cell: Cell) -> str:
    """The first run of a cell at the paper's own scale."""
    (run,) = experiment.configs(cell, seeds=1)
    return run_key(run)


def _printed(line: dict[str, str]) -> Printed:
    keys = {key: _value(text) for key, text in line.items() if text and key not in _NOT_KEYS}
    return Printed(
        keys,
        line["metric"],
        float(line["mean"]),
        float(line["std"]) if line["std"] else None,
        len(line["mean"].partition(".")[2]),
        len(line["std"].partition(".")[2]),
        line["source"],
    )


def _value(text: str) -> Value:
    return int(text) if text.isdigit() else text


@cache
def all_notes() -> dict[str, Any]:
    """The whole file of notes."""
    return _toml("notes.toml")


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))
