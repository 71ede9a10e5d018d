"""Reading run directories."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenstream.errors import DataError
from evenstream.files import AS_IT_IS, object_or_none, read_object
from evenstream.metrics import own_metrics
from evenstream.run.config import CONFIG
from evenstream.run.environment import ENVIRONMENT
from evenstream.run.metrics_file import METRICS, Metrics

__all__ = ["SUMMARY", "Run", "load_run", "load_runs", "make_run"]

SUMMARY = "summary.json"
"""The file of a comparison that sums its runs up."""


@dataclass(frozen=True)
class Run:
    """One run directory as found on disk.

    Attributes:
        directory: where it is; of a packed run the file and the name in it.
        metrics: the content of `metrics.json`; empty when it is missing or cannot be read.
        env: the content of `env.json`; empty when it is missing.
        config: the text of `config.toml`; empty when it is missing.
        problem: why the run cannot be shown, in words; `None` for a run in order.
    """

    directory: Path
    metrics: Metrics = field(default_factory=Metrics)
    env: Mapping[str, Any] = field(default_factory=dict)
    config: str = ""
    problem: str | None = None

    @property
    def finished(self) -> bool:
        """Whether the run has final results."""
        return self.problem is None and self.metrics.finished

    @property
    def method(self) -> str:
        """The method's name: from the metrics, else the settings, else the folder."""
        found = self.metrics.method or self._configured("method")
        return str(found or self.directory.resolve().parent.name)

    @property
    def seed(self) -> int | str:
        """The seed, from the metrics, else the folder's name."""
        if self.metrics.seed is not None:
            return self.metrics.seed
        match = re.fullmatch(r"seed-(\d+)", self.directory.name)
        return int(match[1]) if match else "?"

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
    order = list(object_or_none(directory / SUMMARY) or ())

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


def load_run(directory: Path) -> Run:
    """Read what there is of a run and note what is wrong with it."""
    env = object_or_none(directory / ENVIRONMENT) or {}
    try:
        config = (directory / CONFIG).read_text(encoding="utf-8", errors=AS_IT_IS)
    except OSError:
        config = ""
    try:
        return make_run(directory, read_object(directory / METRICS), env, config)
    except DataError as error:
        return Run(directory, env=env, config=config, problem=str(error))


def make_run(directory: Path, metrics: dict[str, Any], env: dict[str, Any], config: str) -> Run:
    """A run from the content of its files; notes what is wrong with it."""
    found = Metrics(metrics)
    problem = found.problem
    if problem is None and found.finished:
        own = own_metrics(found["accuracy_matrix"])  # may be registered since the run was made
        found = Metrics(metrics | {name: v for name, v in own.items() if v is not None})
    return Run(directory, found, env, config, problem)
