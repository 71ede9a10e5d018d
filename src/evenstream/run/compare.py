"""Many runs at once: methods times seeds, spread over worker processes, then a summary."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from evenstream.errors import EvenstreamError, InputError
from evenstream.files import exclusive, safe_name, write_atomically
from evenstream.interruption import Interrupted, StopFlag, stop_on_signal
from evenstream.run.config import COMPARISON, CONFIG, RunConfig, read_toml
from evenstream.run.folder import finished_metrics, resume_command
from evenstream.run.many import Job, make_all, warnings_named
from evenstream.run.metrics_file import Metrics
from evenstream.run.workers import work_off

Report = Callable[[RunConfig, Metrics | None, str | None], None]


@dataclass(frozen=True)
class Comparison:
    """Methods to compare over the same seeds, with the same settings for all."""

    methods: tuple[str, ...]
    seeds: int
    settings: RunConfig
    """Everything else; its method and seed are those of the first run."""
    budget: float | None = None
    """Times the image passes of ER-LAS that a method may take; reports mark what takes more."""
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Where methods differ from the settings, because they are made for something else."""

    def __post_init__(self) -> None:
        if not self.methods:
            raise InputError("name at least one method to compare")
        if len(set(self.methods)) != len(self.methods):
            raise InputError("a method is named twice")
        if self.seeds < 1:
            raise InputError(f"seeds must be 1 or more, got {self.seeds}")

    @classmethod
    def of(cls, configs: Sequence[RunConfig], seeds: int, budget: float | None) -> Comparison:
        """Compare the first runs of several methods, and more of each with other seeds."""
        usual, methods = configs[0].values(), tuple(config.method for config in configs)
        own = {
            config.method: {n: v for n, v in config.values().items() if usual.get(n) != v}
            for config in configs
        }
        for each in own.values():
            each.pop("method", None)
        return cls(methods, seeds, configs[0], budget, {n: v for n, v in own.items() if v})

    def runs(self) -> Iterator[RunConfig]:
        """All runs, seed by seed, so that early results are already paired."""
        for seed in range(self.settings.seed, self.settings.seed + self.seeds):
            for method in self.methods:
                own = self.own.get(method, {})
                yield replace(self.settings, **{**own, "method": method, "seed": seed})

    def write(self, folder: Path) -> None:
        """Write `comparison.toml`."""
        values = {**self.settings.values(), "methods": list(self.methods), "seeds": self.seeds}
        del values["method"]
        if self.budget is not None:
            values["budget"] = self.budget
        if self.own:
            values["own"] = self.own
        write_atomically(folder / COMPARISON, tomli_w.dumps(values))

    @classmethod
    def read(cls, folder: Path) -> Comparison:
        """Read `comparison.toml`."""
        path = folder / COMPARISON
        values = read_toml(path)
        methods, seeds = values.pop("methods", None), values.pop("seeds", None)
        if not (isinstance(methods, list) and methods and all(type(m) is str for m in methods)):
            raise EvenstreamError(f"{path}: methods must be a list of methods, not {methods!r}")
        budget = values.pop("budget", None)
        if not (budget is None or type(budget) in (int, float)):
            raise EvenstreamError(f"{path}: budget must be a number, not {budget!r}")
        if type(seeds) is not int:
            raise EvenstreamError(f"{path}: seeds must be a whole number, not {seeds!r}")
        own = values.pop("own", {})
        if not (isinstance(own, dict) and all(isinstance(each, dict) for each in own.values())):
            raise EvenstreamError(f"{path}: own must be a table of settings for each method")
        settings = RunConfig.from_values(path, {**values, "method": methods[0]})
        for each in own.values():
            RunConfig.from_values(path, {**values, **each, "method": methods[0]})
        return cls(tuple(methods), seeds, settings, budget, own)


def run_folder(out: Path, config: RunConfig) -> Path:
    """Where a run of a comparison lives; the method's name made safe for a file system."""
    return out / "runs" / safe_name(config.method) / f"seed-{config.seed}"


def compare(comparison: Comparison, out: Path, jobs: int, report: Report) -> list[str]:
    """Make or finish every run with `jobs` processes; returns the errors of those that failed.

    `report` hears of each run as it ends. Ctrl-C and SIGTERM let every running one save itself,
    then raise `Interrupted`. A run whose process is killed from outside goes on from its last
    checkpoint in a new one.
    """
    errors: list[str] = []
    with exclusive(out / COMPARISON), stop_on_signal() as signalled:
        done = finished_runs(comparison, out)
        for config, found in done.items():
            report(config, found, None)
        waiting = deque(
            (config, run_folder(out, config)) for config in comparison.runs() if config not in done
        )
        ending = work_off(waiting, make_or_finish, jobs, signalled)
        for run in make_all(waiting, ending, retries=0):
            if run.error is not None:
                errors.append(f"{run.config.method} seed {run.config.seed}: {run.error}")
            report(run.config, run.metrics, run.error)
    if waiting:
        raise Interrupted(f"stopped and saved; continue with `{resume_command(out)}`")
    return errors


def finished_runs(comparison: Comparison, out: Path) -> dict[RunConfig, Metrics]:
    """The metrics of the runs that are finished already."""
    done = {}
    for config in comparison.runs():
        folder = run_folder(out, config)
        with suppress(EvenstreamError):  # not there, or a worker will say what is wrong with it
            found = finished_metrics(folder)
            if found is not None and RunConfig.read(folder) == config:
                done[config] = found
    return done


def make_or_finish(job: Job, stop: StopFlag) -> Metrics:
    """One run, in a worker process."""
    from evenstream.run.runner import resume_run, start_run

    config, folder = job
    with warnings_named(config):
        if (folder / CONFIG).exists():
            if RunConfig.read(folder) != config:
                raise EvenstreamError(f"{folder} holds a run with other settings")
            return resume_run(folder, stop=stop)
        return start_run(config, folder, stop=stop)


def online_statements(comparison: Comparison, out: Path) -> list[str]:
    """Which test samples the online accuracies were measured on; one statement, if any."""
    found = (run.online.statement for run in metrics_by_method(comparison, out))
    return list(dict.fromkeys(filter(None, found)))


def metrics_by_method(comparison: Comparison, out: Path) -> list[Metrics]:
    """The metrics of all runs that are finished, method after method."""
    found = ((run, finished_metrics(run_folder(out, run))) for run in comparison.runs())
    own = [m for run, m in found if m and (m.method, m.seed) == (run.method, run.seed)]
    return sorted(own, key=lambda metrics: comparison.methods.index(metrics.method))
