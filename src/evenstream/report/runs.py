"""Reading run directories and bringing the seeds of each method together."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import DataError, EvenstreamError, InputError
from evenstream.metrics import as_matrix, average_accuracies

__all__ = ["FORMAT", "Run", "Series", "collect", "load_runs", "number"]

FORMAT = 1
"""The version of `metrics.json` that this module reads."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run directory as found on disk.

    Attributes:
        directory: where it is.
        metrics: the content of `metrics.json`; empty when it is missing or cannot be used.
        env: the content of `env.json`; empty when it is missing.
        config: the text of `config.toml`; empty when it is missing.
        problem: why the run cannot be shown, in words; `None` for a run in order.
        sibling: the method of other runs in the same folder, for a run that does not say.
    """

    directory: Path
    metrics: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    config: str = ""
    problem: str | None = None
    sibling: str = ""

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
        """The method's name: from the metrics, the configuration, a sibling or the folder."""
        if "method" in self.metrics:
            return str(self.metrics["method"])
        folder = self.directory.resolve().parent.name
        return self._configured("method") or self.sibling or folder

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

    def _configured(self, key: str) -> str:
        try:
            value = tomllib.loads(self.config).get(key, "")
        except tomllib.TOMLDecodeError:
            return ""
        if isinstance(value, dict):
            value = value.get("name", "")
        return value if isinstance(value, str) else ""


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
    folder = directory / "runs"
    if folder.is_dir():
        places = [p for m in folder.iterdir() if m.is_dir() for p in m.iterdir() if p.is_dir()]
    elif any((directory / name).is_file() for name in ("metrics.json", "config.toml")):
        places = [directory]
    else:
        places = []
    if not places:
        raise DataError(
            f"{directory} holds no runs; expected metrics.json in it (one run) or "
            "runs/<method>/seed-<s>/ below it (a comparison)"
        )
    order = _method_order(directory / "summary.json")
    found = [_load_run(place) for place in places]
    known = {run.directory.parent: run.method for run in found if "method" in run.metrics}
    found = [replace(run, sibling=known.get(run.directory.parent, "")) for run in found]

    def key(run: Run) -> tuple[int, str, str, int, str]:
        place = order.index(run.method) if run.method in order else len(order)
        seed = run.seed if isinstance(run.seed, int) else 10**18
        return place, run.directory.parent.name, run.method, seed, run.directory.name

    return sorted(found, key=key)


@dataclass(frozen=True)
class Series:
    """The seeds of one method brought together.

    Attributes:
        name: the method.
        index: its place in the comparison, which decides its colour and marker.
        seeds: the seeds, in the order of the runs.
        accuracy: mean average accuracy after each task.
        accuracy_std: its deviation over seeds; NaN with one seed.
        matrix: mean accuracy matrix, NaN where nothing was measured.
        share: mean share of the predictions on each task's classes; NaN if not known.
        truth: true share of the samples; NaN if not known.
        seconds: mean training seconds up to the end of each task; NaN if not known.
    """

    name: str
    index: int
    seeds: tuple[int, ...]
    accuracy: Array
    accuracy_std: Array
    matrix: Array
    share: Array
    truth: Array
    seconds: Array

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.accuracy)


def collect(runs: Iterable[Run]) -> list[Series]:
    """Bring the finished runs together, one series for each method in order of appearance.

    Raises:
        InputError: the runs are of different streams, have different numbers of tasks, or one
            seed of a method occurs twice.
    """
    groups: dict[str, list[Run]] = {}
    finished = [run for run in runs if run.finished]
    for run in finished:
        groups.setdefault(run.method, []).append(run)
    for what, read in _MUST_AGREE.items():
        found = sorted({read(run) for run in finished})
        if len(found) > 1:
            raise InputError(
                f"the runs have different {what} ({', '.join(found)}) and cannot be compared; "
                "report them separately"
            )
    result = []
    for index, (name, members) in enumerate(groups.items()):
        seeds = tuple(int(run.seed) for run in members)
        if len(set(seeds)) < len(seeds):
            raise InputError(f"a seed of {name!r} occurs more than once; remove one of the runs")
        n = len(members[0].metrics["tasks"])
        accuracy = np.stack([_vector(_accuracies(run.metrics), n) for run in members])
        result.append(
            Series(
                name=name,
                index=index,
                seeds=seeds,
                accuracy=_mean(accuracy),
                accuracy_std=_std(accuracy),
                matrix=_mean(
                    np.stack([_square(run.metrics["accuracy_matrix"], n) for run in members])
                ),
                share=_mean_of(members, "prediction_share", n),
                truth=_mean_of(members, "true_share", n),
                seconds=_mean_of(members, "train_seconds_after_task", n),
            )
        )
    return result


def number(value: object) -> float | None:
    """Return a finite number as a float, anything else as `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


_MUST_AGREE: dict[str, Callable[[Run], str]] = {
    "streams": lambda run: str(run.metrics["stream"]),
    "numbers of tasks": lambda run: str(len(run.metrics["tasks"])),
}


def _load_run(directory: Path) -> Run:
    env, _ = _read_json(directory / "env.json")
    try:
        config = (directory / "config.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        config = ""
    metrics, problem = _read_json(directory / "metrics.json")
    if problem is None:
        problem = _problem(metrics)
    return Run(
        directory=directory, metrics=_usable(metrics), env=env, config=config, problem=problem
    )


def _read_json(path: Path) -> tuple[dict[str, Any], str | None]:
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
    if metrics.get("format") != FORMAT:
        return f"metrics.json has format {metrics.get('format')!r}; this version reads {FORMAT}"
    if metrics.get("status") != "finished":
        return None
    wanted: dict[str, type | tuple[type, ...]] = {
        "method": str,
        "stream": str,
        "seed": int,
        "tasks": list,
        "accuracy_matrix": list,
        "A_T": (int, float),
    }
    for name, kind in wanted.items():
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
    content, _ = _read_json(summary)
    methods = content.get("methods")
    return [str(name) for name in methods] if isinstance(methods, dict | list) else []


def _accuracies(metrics: Mapping[str, Any]) -> object:
    """Return the averages as recorded, or worked out from the matrix if they were not."""
    recorded = metrics.get("average_accuracy")
    if isinstance(recorded, list) and len(recorded) == len(metrics["tasks"]):
        return recorded
    return average_accuracies(metrics["accuracy_matrix"])


def _vector(values: object, n: int) -> Array:
    result = np.full(n, np.nan)
    if isinstance(values, Sequence):
        for i, value in enumerate(values[:n]):
            known = number(value)
            result[i] = np.nan if known is None else known
    return result


def _square(values: Any, n: int) -> Array:
    result = np.full((n, n), np.nan)
    matrix = as_matrix(values)
    result[: matrix.shape[0], : matrix.shape[1]] = matrix
    return result


def _mean_of(runs: Sequence[Run], key: str, n: int) -> Array:
    return _mean(np.stack([_vector(run.metrics.get(key), n) for run in runs]))


def _mean(values: Array) -> Array:
    """Mean over the first axis without the NaNs, and without a warning where all are NaN."""
    known = ~np.isnan(values)
    total: Array = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _std(values: Array) -> Array:
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    squares: Array = np.where(known, values - _mean(values), 0.0) ** 2
    return np.where(count > 1, np.sqrt(squares.sum(axis=0) / np.maximum(count - 1, 1)), np.nan)
