"""`evenstream sweep`, and how `evenstream paper run` makes its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from evenstream.cli.run_commands import Trackers
from evenstream.errors import EvenstreamError, InputError
from evenstream.interruption import Interrupted
from evenstream.printable import say_error

if TYPE_CHECKING:
    from rich.console import Console

    from evenstream.report.experiments import Failure
    from evenstream.sweep.experiment import Experiment
    from evenstream.sweep.plan import Plan
    from evenstream.sweep.store import Store

STORE = Path("out/store")

File = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.toml")]
ScaleName = Annotated[
    str | None,
    tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the experiment's own)"),
]
StoreFolder = Annotated[Path, tyro.conf.arg(metavar="DIR")]


def _of_experiment(metavar: str) -> Any:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="(default: the experiment's)")


@dataclass(frozen=True)
class SweepOptions:
    """options of the sweep"""

    jobs: Annotated[int, tyro.conf.arg(help_behavior_hint="(default: one for each core)")] = 0
    """Number of runs at the same time, each in its own process."""
    backend: Literal["local", "ray"] = "local"
    """local: processes of this machine. ray: a Ray cluster (pip install 'evenstream[ray]')."""
    address: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="HOST:PORT", help_behavior_hint="(default: this machine's, or a new one)"
        ),
    ] = None
    """Address of the Ray cluster; --out must be the same folder on all its machines."""
    seeds: Annotated[int | None, _of_experiment("INT")] = None
    """Number of runs per cell."""
    cells: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="KEY=VALUE [KEY=VALUE ...]", help_behavior_hint="(default: all)"),
    ] = ()
    """Only cells with these values: method=er method=er-las memory=500."""
    scale: ScaleName = None
    """A smaller version defined by the experiment; its numbers are labelled with it."""
    device: Annotated[str | None, _of_experiment("NAME")] = None
    """Device for all runs: cpu, cuda, cuda:1, ..."""
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"] | None, _of_experiment("{auto,float32,bfloat16}")
    ] = None
    """Precision of all runs; auto is bfloat16 on CPUs with AMX, otherwise float32."""
    weights: Annotated[str | None, _of_experiment("FILE")] = None
    """Weights that all runs start from (see `evenstream pretrain`); none: from scratch."""
    retries: int = 1
    """How many times to retry a failed run."""
    keep: bool = False
    """Keep the checkpoints of finished runs, to predict with later; they are large."""
    track: Trackers = ""
    """Also log the runs to tensorboard, mlflow, or both (separated by a comma)."""
    out: StoreFolder = STORE
    """Folder for all runs. Experiments share it, and a run that is already there is not
    repeated."""

    def overrides(self) -> dict[str, str]:
        """Settings that override the experiment's."""
        weights = "" if self.weights == "none" else self.weights
        given = {"device": self.device, "dtype": self.dtype, "weights": weights}
        return {name: value for name, value in given.items() if value is not None}


Options = Annotated[SweepOptions, tyro.conf.OmitArgPrefixes]


def sweep(file: File, settings: Options = SweepOptions()) -> int:  # noqa: B008
    """Run every combination of the methods, streams and settings in a file, and report on them.

    Example: evenstream sweep tau.toml --jobs 4 --out out/store

    The file needs only a [grid]: method = ["er", "er-las"], stream = ["c-digits"], and
    whatever else should vary, such as memory = [100, 500] or "method:tau" = [0.5, 1].

    Ctrl-C saves, and the same command continues from there; finished runs are not repeated. You get
    a folder for each run, NAME.csv, which lists them, and a report with tables and figures.

    Args:
        file: The experiment.
        settings: Options of the sweep.
    """
    from evenstream.sweep.experiment_file import read_experiment

    return make_runs(read_experiment(file), settings)


def make_runs(experiment: Experiment, options: SweepOptions, *, paper: bool = False) -> int:
    """Make the missing runs of an experiment and report on all of it; returns the exit status."""
    from evenstream.cli.screen import Screen
    from evenstream.errors import count
    from evenstream.run.workers import warm_up
    from evenstream.sweep.backends import open_backend
    from evenstream.sweep.board import shown_board
    from evenstream.sweep.experiment import check_data, check_options
    from evenstream.sweep.listing import write_listing
    from evenstream.sweep.making import work
    from evenstream.sweep.plan import make_plan
    from evenstream.sweep.store import Store
    from evenstream.track import Tracking, read_names

    if options.retries < 0:
        raise InputError(f"--retries must be 0 or more, got {options.retries}")
    trackers = read_names(options.track)
    plan = make_plan(experiment, options.scale, options.seeds, options.cells, options.overrides())
    runs, store, console = plan.runs(), Store(options.out.absolute()), Screen()
    if options.backend == "local":
        warm_up()
    check_options(runs)
    if options.backend == "local":
        check_data(config for config in runs if store.metrics(config) is None)
    folders, jobs = [store.folder(config) for config in runs], experiment.at_once(options.jobs)
    if jobs != options.jobs:
        console.print(
            f"{experiment.name}: {count(jobs, 'run')} at a time, as its file says, so that others "
            "do not disturb what it measures",
            highlight=False,
        )
    with open_backend(options.backend, runs, jobs, options.address) as backend:
        store.make()
        try:
            with (
                Tracking(trackers, folders, store.root),
                shown_board(plan, store, backend.at_once, console) as board,
            ):
                failed = work(
                    runs, store, backend, retries=options.retries, keep=options.keep, listener=board
                )
        except Interrupted:  # no report of an earlier sweep stays
            _report(plan, store, paper, console)
            raise
        finally:
            listing = write_listing(plan, store)
    for metric in plan.experiment.metrics:
        if board.has(metric):
            console.print(board.table(metric))
    _report(plan, store, paper, console)
    console.print(f"runs: {listing}", highlight=False, markup=False, soft_wrap=True)
    if failed:
        say_error(
            f"error: {len(failed)} of {len(runs)} runs failed, each with an error.json in its "
            "folder; the same command tries again"
        )
    return 1 if failed else 0


def _report(plan: Plan, store: Store, paper: bool, console: Console) -> None:
    """Write the report and say where it is."""
    try:
        page = _write_report(plan, store, paper)
        console.print(f"report: {page}", highlight=False, markup=False, soft_wrap=True)
    except EvenstreamError as error:  # the runs are done in any case
        say_error(f"no report: {error}")


def _write_report(plan: Plan, store: Store, paper: bool) -> Path:
    """Write the report on one experiment into its store, and return the page."""
    from evenstream.errors import count
    from evenstream.report.experiments import Contents, collect_outcome, find_runs, write_tables

    known = None
    if paper:
        from evenstream.paper.report import background

        known = background(plan.experiment)
    search = find_runs(run_folders(store))
    outcome = collect_outcome(plan.experiment, search.runs, known, _failures(plan, store))
    lead = f"{count(len(outcome.runs), 'run')} in the store {store.root}, at all scales."
    contents = Contents(plan.experiment.title, lead, [outcome])
    return write_tables(contents, store.root / "reports" / plan.experiment.name)


def _failures(plan: Plan, store: Store) -> list[Failure]:
    """The runs of an experiment whose last attempt failed, in whichever sweep."""
    from evenstream.report.experiments import Failure

    experiment = plan.experiment
    found: dict[Path, Failure] = {}
    for scale in experiment.scale_names:
        for cell in experiment.cells(scale):
            asked = plan.cells.get(cell, ()) if scale == plan.scale else ()
            for config in (*asked, *experiment.configs(cell, scale)):
                known = store.failure(config)
                if known is not None:  # if scales share a run, the first, as for results
                    error, attempts = str(known.get("error")), known.get("attempts", 1)
                    failure = Failure(scale, cell, config.seed, error, attempts)
                    found.setdefault(store.folder(config), failure)
    return list(found.values())


def run_folders(store: Store) -> list[Path]:
    """Where to search a store for runs."""
    folder = store.root / "runs"
    return [folder] if folder.is_dir() else []
