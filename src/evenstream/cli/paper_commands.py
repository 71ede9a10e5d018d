"""`evenstream sweep` and `evenstream paper list`, `run` and `report`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from evenstream.cli.run_commands import Trackers
from evenstream.errors import EvenstreamError, InputError, UnknownName

if TYPE_CHECKING:
    from evenstream.report.tables import FoundRun
    from evenstream.run.config import RunConfig
    from evenstream.sweep.estimate import Estimate
    from evenstream.sweep.experiment import Experiment
    from evenstream.sweep.plan import Plan
    from evenstream.sweep.store import Store

STORE = Path("out/store")
PAPER_REPORT = Path("out/paper-report")

File = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.toml")]
Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
ScaleName = Annotated[
    str | None,
    tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the experiment's own)"),
]
Names = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="(default: all)"),
]
RunFolders = Annotated[
    tuple[Path, ...], tyro.conf.arg(metavar="DIR [DIR ...]", help_behavior_hint="(default: none)")
]
StoreFolder = Annotated[Path, tyro.conf.arg(metavar="DIR")]


@dataclass(frozen=True)
class SweepOptions:
    """options of the sweep"""

    jobs: Annotated[int, tyro.conf.arg(help_behavior_hint="(default: one for each core)")] = 0
    """Runs at the same time, each a process of its own."""
    backend: Literal["local", "ray"] = "local"
    """local: processes of this machine. ray: a Ray cluster (pip install 'evenstream[ray]')."""
    address: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="HOST:PORT", help_behavior_hint="(default: this machine's, or a new one)"
        ),
    ] = None
    """Of the Ray cluster; --out must be the same folder on all its machines."""
    seeds: Annotated[
        int | None,
        tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the experiment's)"),
    ] = None
    """Runs of each cell."""
    cells: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="KEY=VALUE [KEY=VALUE ...]", help_behavior_hint="(default: all)"),
    ] = ()
    """Only cells that have these: method=er method=er-las memory=500."""
    scale: ScaleName = None
    """A smaller form that the experiment has; its numbers are labelled with it."""
    device: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the experiment's)"),
    ] = None
    """Where all runs are computed: cpu, cuda, cuda:1, ..."""
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"] | None,
        tyro.conf.arg(
            metavar="{auto,float32,bfloat16}", help_behavior_hint="(default: the experiment's)"
        ),
    ] = None
    """Precision of all runs; auto is bfloat16 on CPUs with AMX, else float32."""
    weights: Annotated[
        str | None,
        tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: the experiment's)"),
    ] = None
    """What all runs start from (docs/pretraining.md); none: from scratch."""
    retries: int = 1
    """How often a run that fails is tried again."""
    keep: bool = False
    """Keep the checkpoints of finished runs, to predict with them; they are large."""
    track: Trackers = ""
    """Where to show the runs as well: tensorboard, mlflow, or both, with a comma."""
    out: StoreFolder = STORE
    """Folder of all runs. Experiments share it: a run that is there is not made again."""

    def overrides(self) -> dict[str, str]:
        """Settings that count more than the experiment's."""
        weights = "" if self.weights == "none" else self.weights
        given = {"device": self.device, "dtype": self.dtype, "weights": weights}
        return {name: value for name, value in given.items() if value is not None}


Options = Annotated[SweepOptions, tyro.conf.OmitArgPrefixes]


def sweep(file: File, settings: Options = SweepOptions()) -> int:  # noqa: B008
    """Fill a table of your own: methods, streams and settings in a file, every combination run.

    Example: evenstream sweep tau.toml --jobs 4 --out out/store

    Ctrl-C saves; the same command goes on exactly there, and leaves finished runs alone. Writes a
    folder for each run, NAME.csv, which says what is where, and a report with tables and figures.
    docs/sweeps.md explains the file.

    Args:
        file: The experiment.
        settings: Options of the sweep.
    """
    from evenstream.sweep.experiment_file import read_experiment

    return _sweep(read_experiment(file), settings)


def run(name: Name, settings: Options = SweepOptions()) -> int:  # noqa: B008
    """Run a table or figure of the paper, or some of its cells.

    Example: evenstream paper run mnist --scale smoke --cells method=er method=er-las

    Ctrl-C saves; the same command goes on exactly there, and leaves finished runs alone.

    Args:
        name: An experiment (see `evenstream paper list`).
        settings: Options of the sweep.
    """
    from evenstream.paper import descriptions, experiments

    if name in descriptions():
        raise InputError(
            f"{name} describes streams and needs no runs: `evenstream paper report {name}` shows it"
        )
    if name not in experiments():
        raise UnknownName("experiment", name, experiments())
    return _sweep(experiments()[name], settings, paper=True)


def list_(scale: ScaleName = None, out: StoreFolder = STORE, measure: bool = False) -> int:
    """List the paper's tables and figures: what has been run, what the rest would cost.

    The cost is the time on all cores of this machine, from finished runs like those to come; a
    dash where there are none.

    Example: evenstream paper list --scale cpu --measure

    Args:
        scale: Of the experiments that have it.
        out: Folder of all runs.
        measure: Time a few steps of each kind of run that is not known yet.
    """
    from rich.console import Console
    from rich.table import Table

    from evenstream.paper import descriptions, experiments
    from evenstream.report.tables import find_runs
    from evenstream.sweep.estimate import Estimate, in_words
    from evenstream.sweep.plan import make_plan
    from evenstream.sweep.store import Store

    scales = dict.fromkeys(name for each in experiments().values() for name in each.scale_names)
    if scale is not None and scale not in scales:
        raise UnknownName("scale", scale, scales)
    console, store = Console(), Store(out)
    estimate, found = Estimate(store.finished()), find_runs(_run_folders(store)).runs
    table = Table("name", "cells", "runs", "time left", "what it shows")
    table.columns[0].no_wrap = True
    for experiment in experiments().values():
        if scale is not None and scale not in experiment.scale_names:
            continue
        plan = make_plan(experiment, scale)
        ahead = _ahead(plan, found)
        left = _cost(plan.name, ahead, store, estimate, measure)
        cost = "–" if left is None else in_words(left) if left else ""
        every = len(plan.runs())
        counts = (str(len(plan.cells)), f"{every - len(ahead)}/{every}", cost)
        table.add_row(experiment.name, *counts, f"{experiment.title} ({experiment.source})")
    for entry in descriptions().values():
        table.add_row(entry.name, "", "", "", f"{entry.title} ({entry.source})")
    console.print(table)
    console.print(
        f"Runs and times are those at the scale {scale or next(iter(scales))}; there are: "
        f"{', '.join(scales)} (--scale). `evenstream paper run NAME` runs one. Those without cells "
        "describe streams and need no runs: `evenstream streams NAME` draws a stream.",
        highlight=False,
    )
    return 0


def report(
    names: Names = (),
    store: StoreFolder = STORE,
    runs: RunFolders = (),
    out: StoreFolder = PAPER_REPORT,
) -> int:
    """Put finished runs beside the paper's numbers: Markdown, CSV, LaTeX and one HTML page.

    Example: evenstream paper report --runs docs/results --out out/paper-report

    Says for each number whether it is better or worse than the paper's beyond the noise, and at
    which scale it was made. A run counts wherever it is and whichever command made it.

    Args:
        names: Experiments (see `evenstream paper list`).
        store: Folder of all runs that sweeps made.
        runs: Further folders to search for runs.
        out: Folder for the report; must be new, empty or a report.
    """
    from evenstream.paper.report import collect
    from evenstream.report.formats import count
    from evenstream.report.tables import check_folder, write_tables

    check_folder(out)
    usual = store == STORE and not store.exists()
    contents = collect(names, [*(() if usual else (store,)), *runs])
    page = write_tables(contents, out)
    for row in contents.overview():
        cells, made = f"{row.cells} cells ({row.scales})", count(row.runs, "run")
        print(f"{row.name}: {cells}, {made}; {row.verdicts}")
    if contents.without_runs:
        missing = ", ".join(outcome.experiment.name for outcome in contents.without_runs)
        print(f"no runs: {missing}")
    if contents.unplaced:
        print(f"{count(len(contents.unplaced), 'run')} with settings of no cell")
    for remark in contents.remarks():
        print(remark)
    _print_some(contents.search.problems)
    print(f"report: {page}")
    return 0


def _print_some(problems: Sequence[str], limit: int = 10) -> None:
    for problem in problems[:limit]:
        print(f"left out: {problem}", file=sys.stderr)
    if len(problems) > limit:
        print(f"left out: {len(problems) - limit} more, on the page", file=sys.stderr)


def _report_sweep(plan: Plan, store: Store, paper: bool, failed: int) -> Path:
    """Write the report on one experiment into its store; returns the page."""
    from evenstream.report.formats import count
    from evenstream.report.tables import Contents, collect_outcome, find_runs, write_tables

    known = None
    if paper:
        from evenstream.paper.report import background

        known = background(plan.experiment)
    search = find_runs(_run_folders(store))
    outcome = collect_outcome(plan.experiment, search.runs, known)
    lead = f"{count(len(outcome.runs), 'run')} in the store {store.root}, at all scales."
    if failed:
        lead += f" In the last sweep {count(failed, 'run')} failed; {plan.name}.csv says which."
    contents = Contents(plan.experiment.title, lead, [outcome])
    return write_tables(contents, store.root / "reports" / plan.experiment.name)


def _run_folders(store: Store) -> list[Path]:
    folder = store.root / "runs"
    return [folder] if folder.is_dir() else []


def _ahead(plan: Plan, found: Sequence[FoundRun]) -> list[RunConfig]:
    """The runs of a plan that are not finished, on no device and from no weights that would do."""
    from evenstream.report.tables import collect_outcome

    outcome = collect_outcome(plan.experiment.at(plan.scale), found)
    done = outcome.cells.get(plan.scale, {})
    ahead = (run for cell, runs in plan.cells.items() for run in runs
             if run.seed not in done.get(cell, {}))  # fmt: skip
    return list(dict.fromkeys(ahead))


def _cost(
    name: str, ahead: Sequence[RunConfig], store: Store, estimate: Estimate, measured: bool
) -> float | None:
    """How long runs would take."""
    from evenstream.run.events import last_step
    from evenstream.run.workers import how_many
    from evenstream.sweep.estimate import wall_seconds

    if measured:
        from evenstream.sweep.cost import measure

        for config in ahead:
            if estimate.seconds(config) is None:
                try:
                    estimate.add(config, measure(config))
                except EvenstreamError as error:
                    print(f"{name}: not measured: {error}", file=sys.stderr)
                    break
    seconds = [estimate.seconds(config, last_step(store.folder(config))) for config in ahead]
    return wall_seconds(seconds, how_many(0, 1))


def _sweep(experiment: Experiment, options: SweepOptions, *, paper: bool = False) -> int:
    from rich.console import Console

    from evenstream.sweep.backends import open_backend
    from evenstream.sweep.board import shown_board
    from evenstream.sweep.engine import work
    from evenstream.sweep.experiment import check_data, check_options
    from evenstream.sweep.listing import write_listing
    from evenstream.sweep.plan import make_plan
    from evenstream.sweep.store import Store
    from evenstream.track import Tracking, read_names

    if options.retries < 0:
        raise InputError(f"--retries must be 0 or more, got {options.retries}")
    trackers = read_names(options.track)
    plan = make_plan(experiment, options.scale, options.seeds, options.cells, options.overrides())
    runs, store, console = plan.runs(), Store(options.out.absolute()), Console()
    check_options(runs)
    if options.backend == "local":
        check_data(config for config in runs if store.metrics(config) is None)
    folders = [store.folder(config) for config in runs]
    with open_backend(options.backend, runs, options.jobs, options.address) as backend:
        store.make()
        try:
            with (
                Tracking(trackers, folders, store.root),
                shown_board(plan, store, backend.slots, console) as board,
            ):
                failed = work(
                    runs, store, backend, retries=options.retries, keep=options.keep, report=board
                )
        finally:
            listing = write_listing(plan, store)
    for metric in plan.experiment.metrics:
        if board.has(metric):
            console.print(board.table(metric))
    try:
        page = _report_sweep(plan, store, paper, len(failed))
        console.print(f"report: {page}", highlight=False, markup=False, soft_wrap=True)
    except EvenstreamError as error:  # the runs are made all the same
        print(f"no report: {error}", file=sys.stderr)
    console.print(f"runs: {listing}", highlight=False, markup=False, soft_wrap=True)
    if failed:
        print(
            f"error: {len(failed)} of {len(runs)} runs failed, each with an error.json in its "
            "folder; the same command tries again",
            file=sys.stderr,
        )
    return 1 if failed else 0


COMMANDS: dict[str, Callable[..., Any]] = {"list": list_, "run": run, "report": report}
