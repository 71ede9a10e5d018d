"""Reading run directories."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenstream.errors import DataError, EvenstreamError, InputError
from evenstream.files import AS_IT_IS
from evenstream.metrics import as_matrix, own_metrics
from evenstream.run.config import CONFIG
from evenstream.run.environment import ENVIRONMENT
from evenstream.run.folder import METRICS, METRICS_FORMAT

__all__ = ["SUMMARY", "Run", "load_run", "load_runs", "make_run", "number"]

SUMMARY = "summary.json"
"""The file of a comparison that sums its runs up."""

_NEEDED: dict[str, type | tuple[type, ...]] = {
    "method": str,
    "stream": str,
    "seed": int,
    "tasks": list,
    "accuracy_matrix": list,
    "A_T": (int, float),
}


@dataclass(frozen=True)
class Run:
    """One run directory as found on disk.

    Attributes:
        directory: where it is; of a packed run the file and the name in it.
        metrics: the content of `metrics.json`; empty when it is missing or cannot be used.
        env: the content of `env.json`; empty when it is missing.
        config: the text of `config.toml`; empty when it is missing.
        problem: why the run cannot be shown, in words; `None` for a run in order.
    """

    directory: Path
    metrics: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    config: str = ""
    problem: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the run has final results."""
        return self.problem is None and self.status == "finished"

    @property
    def status(self) -> str:
        """The status that the run wrote last; "no results" if it wrote none."""
        return str(self.metrics.get("status", "no results"))

    @property
    def method(self) -> str:
        """The method's name: from the metrics, else the settings, else the folder."""
        found = self.metrics.get("method") or self._configured("method")
        return str(found or self.directory.resolve().parent.name)

    @property
    def seed(self) -> int | str:
        """The seed, from the metrics, else the folder's name."""
        if "seed" in self.metrics:
            return int(self.metrics["seed"])
        match = re.fullmatch(r"seed-(\d+)", self.directory.name)
        return int(match[1]) if match else "?"

    @property
    def tasks_done(self) -> int:
        """How many tasks have been measured."""
        try:
            return len(as_matrix(self.metrics.get("accuracy_matrix") or []))
        except (InputError, TypeError, ValueError):
            return 0

    @property
    def online(self) -> Mapping[str, Any]:
        """The online accuracies and how they were measured; empty if they were not."""
        found = self.metrics.get("online")
        if not isinstance(found, dict) or not isinstance(found.get("accuracy"), list):
            return {}
        return found if isinstance(found.get("every"), int) else {}

    @property
    def classes(self) -> list[str]:
        """The names of all classes; none in runs of older versions."""
        found = self.metrics.get("classes")
        return list(map(str, found)) if isinstance(found, list) else []

    def skipped(self, part: str) -> tuple[int, list[str]]:
        """How many samples of a part (train, test) could not be read, and the first of them."""
        found = self.metrics.get(f"skipped_{part}")
        if not isinstance(found, dict) or not isinstance(found.get("count"), int):
            return 0, []
        return found["count"], [str(name) for name in found.get("first", [])]

    def _configured(self, key: str) -> object:
        """Return an entry of the settings; None if they do not have it or cannot be read."""
        try:
            return tomllib.loads(self.config).get(key)
        except (tomllib.TOMLDecodeError, RecursionError):
            return None


def load_runs(directory: Path | str) -> list[Run]:
    """Read a run directory, or all runs of a comparison directory.

    Runs that are not finished or cannot be read are in the list too, with `finished` false. The
    methods come in the order of the comparison's `summary.json` if there is one, else by name;
    the seeds of a method in rising order.

    Raises:
        DataError: there is no such directory or no run in it.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise DataError(f"{directory} is not a directory; give a run or comparison directory")
    places = _places(directory)
    if not places:
        raise DataError(
            f"{directory} holds no runs; expected metrics.json in it (one run) or "
            "runs/<method>/seed-<s>/ below it (a comparison)"
        )
    order = _method_order(directory / SUMMARY)

    def key(run: Run) -> tuple[int, str, str, int, str]:
        place = order.index(run.method) if run.method in order else len(order)
        seed = run.seed if isinstance(run.seed, int) else 10**18
        return place, run.directory.parent.name, run.method, seed, run.directory.name

    return sorted(map(load_run, places), key=key)


def _places(directory: Path) -> list[Path]:
    """Return where the runs are: below `runs/`, or the directory itself."""
    folder = directory / "runs"
    if folder.is_dir():
        return [p for m in folder.iterdir() if m.is_dir() for p in m.iterdir() if p.is_dir()]
    if any((directory / name).is_file() for name in (METRICS, CONFIG)):
        return [directory]
    return []


def number(value: object) -> float | None:
    """Return a finite number as a float, anything else as `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def load_run(directory: Path) -> Run:
    """Read what there is of a run and note what is wrong with it."""
    env, _ = _read_json(directory / ENVIRONMENT)
    try:
        config = (directory / CONFIG).read_text(encoding="utf-8", errors=AS_IT_IS)
    except OSError:
        config = ""
    metrics, problem = _read_json(directory / METRICS)
    if problem is None:
        return make_run(directory, metrics, env, config)
    return Run(directory, env=env, config=config, problem=problem)


def make_run(directory: Path, metrics: dict[str, Any], env: dict[str, Any], config: str) -> Run:
    """A run from the content of its files; notes what is wrong with it."""
    problem = _problem(metrics)
    if problem is None and metrics.get("status") == "finished":
        own = own_metrics(metrics["accuracy_matrix"])  # may be registered since the run was made
        metrics = metrics | {name: value for name, value in own.items() if value is not None}
    return Run(directory, _usable(metrics), env, config, problem)


def _read_json(path: Path) -> tuple[dict[str, Any], str | None]:
    """Return the object in a file and, if it cannot be used, why."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, f"it has no {path.name}"
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read ({error})"
    if not isinstance(content, dict):
        return {}, f"{path.name} is not an object"
    return content, None


def _usable(metrics: dict[str, Any]) -> dict[str, Any]:
    """Drop what `Run.method`, `seed` and `status` could stumble over."""
    kinds: dict[str, type] = {"method": str, "seed": int, "status": str}
    return {k: v for k, v in metrics.items() if k not in kinds or isinstance(v, kinds[k])}


def _problem(metrics: dict[str, Any]) -> str | None:
    """Say why metrics cannot be shown; `None` if they can, or if the run is not over."""
    written = metrics.get("format")
    if written != METRICS_FORMAT:
        return f"metrics.json has format {written!r}; this version reads {METRICS_FORMAT}"
    if metrics.get("status") != "finished":
        return None
    for name, kind in _NEEDED.items():
        if not isinstance(metrics.get(name), kind):
            return f"metrics.json says finished but has no usable {name}"
    if number(metrics["A_T"]) is None:
        return "metrics.json says finished but A_T is not a finite number"
    try:
        matrix = as_matrix(metrics["accuracy_matrix"])
    except (EvenstreamError, TypeError, ValueError) as error:
        return f"metrics.json has no usable accuracy_matrix ({error})"
    if matrix.shape != (len(metrics["tasks"]),) * 2:
        return "metrics.json says finished but its accuracy_matrix does not cover all tasks"
    return None


def _method_order(summary: Path) -> list[str]:
    """Return the methods of a comparison's `summary.json` in order; none if there is no file."""
    return list(_read_json(summary)[0])
