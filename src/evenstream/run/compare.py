"""Many runs at once: methods times seeds, each in a process of its own, then a summary."""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from evenstream.errors import EvenstreamError, InputError
from evenstream.run.config import CONFIG, RunConfig, read_toml
from evenstream.run.interruption import Interrupted, stop_on_signal

COMPARISON = "comparison.toml"
SUMMARY = "summary.json"
ATTEMPTS = 3
"""How often a run is taken up again after its process was killed from outside."""

Report = Callable[[RunConfig, dict[str, Any] | None, str | None], None]


@dataclass(frozen=True)
class Comparison:
    """Methods to compare over the same seeds, with the same settings for all."""

    methods: tuple[str, ...]
    seeds: int
    settings: RunConfig
    """Everything else; its method and seed are those of the first run."""

    def __post_init__(self) -> None:
        if not self.methods:
            raise InputError("name at least one method to compare")
        if len(set(self.methods)) != len(self.methods):
            raise InputError("a method is named twice")
        if self.seeds < 1:
            raise InputError(f"seeds must be 1 or more, got {self.seeds}")

    def runs(self) -> Iterator[RunConfig]:
        """All runs, seed by seed, so that early results are already paired."""
        for seed in range(self.settings.seed, self.settings.seed + self.seeds):
            for method in self.methods:
                yield replace(self.settings, method=method, seed=seed)

    def write(self, folder: Path) -> None:
        """Write `comparison.toml`."""
        values = {**asdict(self.settings), "methods": list(self.methods), "seeds": self.seeds}
        del values["method"]
        (folder / COMPARISON).write_text(tomli_w.dumps(values), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Comparison:
        """Read `comparison.toml`."""
        known = {field.name for field in fields(RunConfig)} - {"method"} | {"methods", "seeds"}
        values = read_toml(folder / COMPARISON, known)
        methods, seeds = tuple(values.pop("methods")), values.pop("seeds")
        return cls(methods, seeds, RunConfig(method=methods[0], **values))


def run_folder(out: Path, config: RunConfig) -> Path:
    """Where a run of a comparison lives; the method's name made safe for a file system."""
    return out / "runs" / re.sub(r"[^A-Za-z0-9.+-]+", "_", config.method) / f"seed-{config.seed}"


def compare(comparison: Comparison, out: Path, jobs: int, report: Report) -> list[str]:
    """Make or finish every run with `jobs` processes; returns the errors of those that failed.

    `report` hears of each run as it ends. Ctrl-C and SIGTERM let every running one save itself,
    then raise `Interrupted`.
    """
    waiting = list(comparison.runs())
    attempts = dict.fromkeys(waiting, 0)
    errors: list[str] = []
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with stop_on_signal() as signalled:
        while waiting and not signalled.is_set():
            again: list[RunConfig] = []
            with ProcessPoolExecutor(
                min(jobs, len(waiting)), context, initializer=_start_worker, initargs=(stop,)
            ) as pool:
                futures = {pool.submit(_work, c, run_folder(out, c)): c for c in waiting}
                for future in _as_they_end(futures, signalled.is_set, stop):
                    config = futures[future]
                    error = None if future.cancelled() else future.exception()
                    if future.cancelled() or isinstance(error, Interrupted):
                        continue
                    if isinstance(error, BrokenProcessPool) and attempts[config] < ATTEMPTS:
                        attempts[config] += 1
                        again.append(config)
                    elif error is not None:
                        errors.append(f"{config.method} seed {config.seed}: {error}")
                        report(config, None, str(error))
                    else:
                        report(config, future.result(), None)
            waiting = again
    if signalled.is_set():
        raise Interrupted(f"stopped and saved; go on with `evenstream resume {out}`")
    return errors


def _as_they_end(
    futures: dict[Future[Any], RunConfig], signalled: Callable[[], bool], stop: Any
) -> Iterator[Future[Any]]:
    """Yield futures as they end; once a signal came, cancel what has not begun."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        yield from done
        if signalled() and not stop.is_set():
            stop.set()
            for future in pending:
                future.cancel()


_stop: Any = None


def _start_worker(stop: Any) -> None:
    """Leave Ctrl-C to the parent: it tells the workers through the event."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(config: RunConfig, folder: Path) -> dict[str, Any]:
    from evenstream.run.runner import resume_run, start_run

    if (folder / CONFIG).exists():
        if RunConfig.read(folder) != config:
            raise EvenstreamError(f"{folder} holds a run with other settings")
        return resume_run(folder, stop=_stop)
    return start_run(config, folder, stop=_stop)


def write_summary(comparison: Comparison, out: Path) -> dict[str, Any]:
    """Sum up the finished runs into `summary.json`."""
    from evenstream.report.summary import summarise
    from evenstream.run.runner import read_metrics

    found = [read_metrics(run_folder(out, config)) for config in comparison.runs()]
    order = {method: index for index, method in enumerate(comparison.methods)}
    runs = sorted((run for run in found if run), key=lambda run: order[run["method"]])
    summary = summarise(runs)
    (out / SUMMARY).write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return summary
