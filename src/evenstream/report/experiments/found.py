"""Finds runs in folders, whichever command made them, and whatever else is there."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evenstream.errors import DataError, EvenstreamError, count
from evenstream.measures import Metric
from evenstream.report.packed import PACKED, is_packed, read_packed
from evenstream.report.runs import Run, load_run, make_run
from evenstream.run.config import CONFIG, RunConfig
from evenstream.run.folder import CHECKPOINTS
from evenstream.run.metrics_file import METRICS
from evenstream.run.sameness import run_key
from evenstream.sweep.experiment import TO_BE_GIVEN
from evenstream.sweep.store import ERROR

HOW = {
    "device": "cpu", "dtype": "auto", "threads": 1,
    "eval_every": 0, "eval_images": 1000, "eval_future": False,
}  # fmt: skip
"""Settings that say how a run was computed and what was measured on the way, not what it learned.

A cell that sets none of one is also filled by runs with another than the default: the paper says
nothing of them, evaluations leave the learner alone, and the machine with its precision is shown
with each number. What a cell sets itself, its runs must have."""
_WHILE_LEARNING = ("A_AUC", "eval_seconds")
"""Metrics that depend on how often and on how many images a run was evaluated on the way."""


@dataclass(frozen=True)
class FoundRun:
    """A finished run."""

    config: RunConfig
    run: Run

    @cached_property
    def key(self) -> str:
        """The run's name; copies have the same."""
        return run_key(self.config)

    @cached_property
    def setting(self) -> str:
        """The name of the run without its seed: what cells are found by."""
        return run_key(replace(self.config, seed=0))

    def settings_but(self, names: frozenset[str]) -> list[str]:
        """The same with some fields of `HOW` at their defaults; then for any file of weights."""
        if names not in self._settings_but:
            how: dict[str, Any] = {name: HOW[name] for name in names}
            config = replace(self.config, seed=0, **how)
            any_file = [replace(config, weights_sha256=TO_BE_GIVEN)] * bool(config.weights_sha256)
            self._settings_but[names] = [run_key(each) for each in (config, *any_file)]
        return self._settings_but[names]

    @cached_property
    def _settings_but(self) -> dict[frozenset[str], list[str]]:
        """What was asked before: every experiment asks the same."""
        return {}

    @property
    def machine(self) -> str:
        """What it was computed on, and with how many threads: what its time depends on.

        Of a run that was resumed elsewhere all machines, in their order.
        """
        return _in_order(map(self._machine, self._sessions))

    @property
    def one_machine(self) -> bool:
        """Whether all of it was computed on the same kind of machine."""
        return len(set(map(self._machine, self._sessions))) == 1

    def _machine(self, env: Mapping[str, Any]) -> str:
        metrics = self.run.metrics
        gpu = metrics.text("device") != "cpu" and env.get("gpu")
        cores, threads = env.get("cores"), metrics.whole("threads")
        parts = [
            gpu or env.get("cpu"),
            f"{cores} cores" if cores and not gpu else None,
            None if threads is None else count(threads, "thread"),
            metrics.text("dtype"),
        ]
        return ", ".join(str(part) for part in parts if part) or "unknown"

    @property
    def _sessions(self) -> list[Mapping[str, Any]]:
        """What the run was begun with, then what it was resumed with each time."""
        first = self.run.env
        resumed = first.get("resumed")
        later = resumed if isinstance(resumed, list) else []
        return [first, *({**first, **each} for each in later if isinstance(each, dict))]

    @property
    def conditions(self) -> dict[str, str | None]:
        """What runs to be paired must share: device, type of numbers, and what they start from."""
        made = {name: self.run.metrics.text(name) for name in ("device", "dtype")}
        return {**made, "weights": self.config.weights_sha256}

    def how_measured(self, metric: Metric) -> tuple[object, ...]:
        """What a number depends on beside what was learned; only alike ones can be averaged."""
        config = self.config
        return (
            self.machine if metric.timing else None,
            (config.eval_every, config.eval_images) if metric.name in _WHILE_LEARNING else None,
        )

    @property
    def weights(self) -> str:
        """What it starts from: the name of the file and how its digest begins."""
        digest = self.config.weights_sha256
        file = self.config.weights or ""
        return f"{Path(file).name} ({digest[:8]})" if digest else "from scratch"

    @property
    def commit(self) -> str:
        """The commits that it was computed with, or else the versions."""
        return _in_order(map(_commit, self._sessions))


def _commit(env: Mapping[str, Any]) -> str:
    if env.get("commit"):
        return str(env["commit"])
    return f"version {env['evenstream']}" if env.get("evenstream") else "unknown"


def _in_order(values: Iterable[str]) -> str:
    """Values one after the other; those that stay the same once."""
    return " -> ".join(value for value, _ in itertools.groupby(values))


@dataclass
class Search:
    """What was found."""

    runs: list[FoundRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """A line for each folder that looks like a run and cannot be used."""
    unfinished: int = 0
    failed: int = 0
    copies: int = 0
    """Runs that were there more than once; the first one counts."""


def find_runs(folders: Sequence[Path]) -> Search:
    """All finished runs in folders and below, in the order of the folders, each once.

    Runs that were packed count like all others, in files beside or instead of folders.
    """
    search = Search()
    seen: dict[str, FoundRun] = {}
    places: set[Path] = set()
    for folder in folders:
        if not folder.is_dir() and not is_packed(folder):
            raise DataError(
                f"{folder} is not a folder; runs are searched for in folders and in files of "
                f"packed runs (NAME{PACKED})"
            )
        for place in _places(folder):
            if place.resolve() in places:
                continue
            places.add(place.resolve())
            for found in _read_packed(place, search) if is_packed(place) else _read(place, search):
                first = seen.setdefault(found.key, found)
                if first is found:
                    search.runs.append(found)
                else:
                    _note_copy(first, found, search)
    return search


def _note_copy(first: FoundRun, copy: FoundRun, search: Search) -> None:
    search.copies += 1
    one, other = (each.run.metrics["A_T"] for each in (first, copy))
    if one != other:
        search.problems.append(
            f"{copy.run.directory}: left out, a run like {first.run.directory} with another result "
            f"(A_T {other:.2f}, not {one:.2f})"
        )


def _places(folder: Path) -> Iterator[Path]:
    """Folders that hold one of the files of a run, and packed runs; links are not followed."""
    if is_packed(folder):
        yield folder
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != CHECKPOINTS)
        if CONFIG in files or METRICS in files:
            yield Path(parent)
        names = sorted(name.removesuffix(PACKED) for name in files if name.endswith(PACKED))
        yield from (Path(parent, name + PACKED) for name in names)


def _read_packed(file: Path, search: Search) -> Iterator[FoundRun]:
    """The runs in a file; what cannot be used is noted in `search`."""
    for packed in read_packed(file, search.problems.append):
        place = file / packed.name
        try:
            config = RunConfig.from_values(place, packed.config)
        except EvenstreamError as error:
            search.problems.append(f"{place}: no run of this version ({error})")
            continue
        run = make_run(place, packed.metrics, packed.env or {}, packed.settings)
        yield from _usable(config, run, search)


def _read(place: Path, search: Search) -> Iterator[FoundRun]:
    """The run in a folder; none, and the reason in `search`, if it cannot be used."""
    try:
        config = RunConfig.read(place)
    except EvenstreamError as error:
        search.problems.append(f"{place}: no run of this version ({error})")
        return
    if (place / METRICS).is_file():
        yield from _usable(config, load_run(place), search)
    elif (place / ERROR).is_file():
        search.failed += 1
    else:
        search.unfinished += 1


def _usable(config: RunConfig, run: Run, search: Search) -> Iterator[FoundRun]:
    if run.problem is not None:
        search.problems.append(f"{run.directory}: {run.problem}")
    elif not run.finished:
        search.unfinished += 1
    elif any(run.metrics[name] != getattr(config, name) for name in ("method", "stream", "seed")):
        search.problems.append(f"{run.directory}: {METRICS} is not of the run in {CONFIG}")
    else:
        yield FoundRun(config, run)
