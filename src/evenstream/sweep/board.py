"""What a sweep shows while it works: a table filling in on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evenstream.run.events import last_step
from evenstream.run.many import Ended, Job
from evenstream.run.metrics_file import Metrics
from evenstream.run.sameness import run_key
from evenstream.statistics import mean_std
from evenstream.sweep.estimate import Estimate, in_words, wall_seconds
from evenstream.sweep.experiment import WITH_OPTIONS, Cell, Value
from evenstream.sweep.fitted_table import FittedTable
from evenstream.sweep.making import Listener
from evenstream.sweep.plan import Plan
from evenstream.sweep.store import Store

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


class Board(Listener):
    """Keeps what is known about each run of a plan, and makes tables of it."""

    def __init__(self, plan: Plan, store: Store, at_once: int) -> None:
        self.plan, self.store, self.at_once = plan, store, at_once
        self.key_of = {config: run_key(config) for config in plan.runs()}
        self.runs = {key: config for config, key in self.key_of.items()}
        self._cells = {config: cell for cell, runs in plan.cells.items() for config in runs}
        self.finished: dict[str, Metrics] = {}
        self.failed: dict[str, str] = {}
        self.waiting: Sequence[Job] = [(config, store.folder(config)) for config in self.key_of]
        self.estimate = Estimate()
        # Runs of other sweeps tell about those that are alike, and nothing about others.
        others = (run for run in store.finished() if run_key(run[0]) not in self.runs)
        self._before = Estimate(others)

    def start(self, done: Mapping[str, Metrics], waiting: Sequence[Job]) -> None:
        """Take over what was finished before."""
        self.waiting = waiting
        for key, metrics in done.items():
            self._finish(key, metrics)

    def ended(self, run: Ended) -> None:
        """Take down what became of a run."""
        key = self.key_of[run.config]
        if run.metrics is not None:
            self._finish(key, run.metrics)
        elif run.error is not None and not run.again:
            self.failed[key] = run.error

    def status(self) -> str:
        """How far the sweep is."""
        parts = [f"{len(self.finished)} of {len(self.runs)} runs"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        left = self.seconds_left()
        if left is not None and left >= 1:
            parts.append(f"about {in_words(left)} left")
        return ", ".join(parts)

    def said(self, run: Ended) -> str:
        """A run that has ended, in a line."""
        if run.error is not None:
            result = f"failed: {run.error}" + ("; will be tried again" if run.again else "")
        else:
            result = _first_number(self.plan.experiment.metrics, run.metrics or Metrics())
        return f"{self._cells[run.config]}, seed {run.config.seed}{self.plan.label}: {result}"

    def seconds_left(self) -> float | None:
        """Until the whole sweep is done; None while nothing is known."""
        running = self.running()
        ahead = set(self.runs) - set(self.finished) - set(self.failed)
        return wall_seconds((self._seconds(key, key in running) for key in ahead), self.at_once)

    def running(self) -> set[str]:
        """The runs that were begun and have not ended."""
        waiting = {self.key_of[config] for config, _ in list(self.waiting)}
        return set(self.runs) - set(self.finished) - set(self.failed) - waiting

    def has(self, metric: str) -> bool:
        """Whether any run has a number for a metric; some are lists."""
        return any(run.number(metric) is not None for run in self.finished.values())

    def table(self, metric: str) -> FittedTable:
        """The experiment's table of one metric: means, deviations, and what is missing."""
        experiment = self.plan.experiment
        across = [key for key in experiment.grid if key not in experiment.rows]
        rows: dict[tuple[Value, ...], dict[tuple[Value, ...], Cell]] = {}
        for cell in self.plan.cells:
            row, column = (tuple(cell[k] for k in keys) for keys in (experiment.rows, across))
            rows.setdefault(row, {})[column] = cell
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        running = self.running()
        return FittedTable(
            f"{metric}: {self.plan.title}",
            experiment.rows,
            [[str(value) for value in row] for row in rows],
            [
                (
                    _head(across, column) or metric,
                    [self._text(cells.get(column), metric, running) for cells in rows.values()],
                )
                for column in columns
            ],
        )

    def _text(self, cell: Cell | None, metric: str, running: set[str]) -> Text:
        from rich.text import Text

        if cell is None:
            return Text()
        keys = [self.key_of[config] for config in self.plan.cells[cell]]
        found = [self.finished[key] for key in keys if key in self.finished]
        known = [n for n in (metrics.number(metric) for metrics in found) if n is not None]
        parts = []
        if known:
            mean, deviation = mean_std(known)
            parts.append(f"{mean:.1f}" + (f" ± {deviation:.1f}" if deviation is not None else ""))
        elif found:  # not a number, as a list of shares is not
            parts.append("done")
        if len(found) < len(keys):
            parts.append(f"[dim]{len(found)}/{len(keys)}[/dim]")
        if running.intersection(keys):
            parts.append("[cyan]…[/cyan]")
        failed = sum(key in self.failed for key in keys)
        if failed:
            parts.append(f"[red]{failed} failed[/red]")
        return Text.from_markup(" ".join(parts))

    def _finish(self, key: str, metrics: Metrics) -> None:
        self.finished[key] = metrics
        self.estimate.add(self.runs[key], metrics)

    def _seconds(self, key: str, running: bool) -> float | None:
        config = self.runs[key]
        done = last_step(self.store.folder(config)) if running else 0
        for estimate in (self.estimate, self._before):
            known = estimate.seconds(config, done)
            if known is not None:
                return known
        return self.estimate.seconds(config, done, guess=True)


class PlainBoard(Board):
    """A line for each run as it ends."""

    def __init__(self, plan: Plan, store: Store, at_once: int, console: Console) -> None:
        super().__init__(plan, store, at_once)
        self._console = console

    def start(self, done: Mapping[str, Metrics], waiting: Sequence[Job]) -> None:
        """Say how much is there already."""
        super().start(done, waiting)
        self._print(self.status())

    def ended(self, run: Ended) -> None:
        """Say what became of a run."""
        super().ended(run)
        self._print(f"{self.said(run)}  ({self.status()})")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveBoard(Board):
    """The table of the first metric, redrawn as runs begin and end; errors above it."""

    def __init__(self, plan: Plan, store: Store, at_once: int, console: Console) -> None:
        super().__init__(plan, store, at_once)
        self._console = console

    def ended(self, run: Ended) -> None:
        """Print errors, which the table has no room for."""
        from rich.text import Text

        super().ended(run)
        if run.error is not None:  # as a Text: options of print() would reach the table, too
            self._console.print(Text(self.said(run), style="red"), soft_wrap=True)

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        # the status comes first, since what is too high for the screen is cut off at the bottom
        return Group(Text(self.status()), self.table(self.plan.experiment.metrics[0]))


@contextmanager
def shown_board(plan: Plan, store: Store, at_once: int, console: Console) -> Iterator[Board]:
    """The form that suits where the output goes; a live table goes when the sweep has ended."""
    from rich.live import Live

    if console.is_terminal:
        board = LiveBoard(plan, store, at_once, console)
        with Live(board, console=console, refresh_per_second=1, transient=True):
            yield board
    else:
        yield PlainBoard(plan, store, at_once, console)


def _head(keys: Sequence[str], values: Sequence[Value]) -> str:
    named = zip(keys, values, strict=True)
    return "\n".join(str(v) if k in WITH_OPTIONS else f"{k} {v}" for k, v in named)


def _first_number(names: Sequence[str], metrics: Metrics) -> str:
    numbers = ((name, metrics.number(name)) for name in names)
    return next((f"{name} {value:.1f}" for name, value in numbers if value is not None), "finished")
