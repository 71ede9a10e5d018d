"""`evenstream run`, `compare`, `resume` and `report`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from evenstream.cli.settings import Settings
from evenstream.errors import InputError
from evenstream.files import safe_name
from evenstream.printable import say_error
from evenstream.run.workers import how_many, warm_up

if TYPE_CHECKING:
    from rich.console import Console

    from evenstream.cli.screen import Screen
    from evenstream.run.compare import Comparison
    from evenstream.run.config import RunConfig
    from evenstream.run.metrics_file import Metrics
    from evenstream.streams import Stream

MethodName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")]
MethodNames = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="METHOD [METHOD ...]", help_behavior_hint="(required)"),
]
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
NewFolder = Annotated[
    Path | None,
    tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: out/..., after the stream)"),
]
Budget = Annotated[str | None, tyro.conf.arg(metavar="TIMES", help_behavior_hint="(default: none)")]
Trackers = Annotated[str, tyro.conf.arg(metavar="NAMES", help_behavior_hint="(default: none)")]
SettingsFlags = Annotated[Settings, tyro.conf.OmitArgPrefixes]


def run(
    method: MethodName,
    settings: SettingsFlags = Settings(),  # noqa: B008
    track: Trackers = "",
    out: NewFolder = None,
) -> int:
    """Train one method on one stream, once.

    Example: evenstream run er-las:tau=2 --stream c-digits --memory 100 --out out/first

    Writes config.toml, events.jsonl, metrics.json, env.json and checkpoints. Ctrl-C saves, and
    `evenstream resume DIR` continues from there.

    Args:
        method: NAME[:key=value,...][@RULE], as in er, er-las:tau=inf,window=5, er@ncm.
        settings: Options of the run.
        track: Also log the run to tensorboard, mlflow, or both (separated by a comma).
        out: Folder for the run; must be new or empty.
    """
    from evenstream.run.announcing import make_progress
    from evenstream.run.folder import claim_folder
    from evenstream.run.preparation import fit
    from evenstream.run.runner import execute
    from evenstream.track import Tracking, read_names

    trackers = read_names(track)
    method = settings.named(method)
    stream = settings.open()
    config = settings.resolve(method, stream.protocol)
    fit(config, stream)
    _note_missing_weights(config, stream)
    _note_columns(stream)
    name = f"{safe_name(config.stream)}_{safe_name(method)}_seed-{config.seed}"
    folder = out or Path("out") / name
    claim_folder(folder, config)
    console = _console()
    _print_settings(console, config, f"{method} on {config.stream}, seed {config.seed}")
    with Tracking(trackers, [folder], folder):
        metrics = execute(config, stream, folder, make_progress(console))
    _print_result(console, metrics, folder)
    return 0


def compare(
    methods: MethodNames,
    settings: SettingsFlags = Settings(),  # noqa: B008
    seeds: int = 5,
    jobs: Annotated[int, tyro.conf.arg(help_behavior_hint="(default: one for each core)")] = 0,
    track: Trackers = "",
    budget: Budget = None,
    out: NewFolder = None,
) -> int:
    """Train several methods on the same seeds, and show their differences with 95 % intervals.

    Example: evenstream compare fine-tune er er-las --stream c-digits --seeds 10 --out out/digits

    Writes a run folder for each method and seed, summary.json and report.html.

    Args:
        methods: Each as NAME[:key=value,...][@RULE]; later ones are compared with earlier ones.
        settings: Options of every run.
        seeds: How many seeds each method is trained with.
        jobs: How many runs at the same time, each in a process with --threads threads.
        track: Also log the runs to tensorboard, mlflow, or both (separated by a comma).
        budget: Mark methods that need more image passes than er-las by this factor, such as 1.1x.
        out: Folder for the comparison; must be new or empty.
    """
    from evenstream.track import read_names

    trackers = read_names(track)
    if not methods:
        raise InputError("name at least one method to compare")
    warm_up()  # first, so that this process and the workers load PyTorch at the same time

    from evenstream.run.compare import Comparison
    from evenstream.run.folder import claim_folder
    from evenstream.run.preparation import fit

    methods = tuple(map(settings.named, methods))
    stream = settings.open()
    configs = [settings.resolve(method, stream.protocol) for method in methods]
    for config in configs:
        fit(config, stream)
    comparison = Comparison.of(configs, seeds, _times(budget))
    _note_missing_weights(comparison.settings, stream)
    _note_columns(stream)
    name = safe_name(comparison.settings.stream)
    folder = out or Path("out") / f"{name}_{'_'.join(map(safe_name, methods))}"
    n_jobs = how_many(jobs, comparison.settings.threads)
    del stream  # the workers load it themselves
    claim_folder(folder, comparison)
    return _compare(comparison, folder, n_jobs, trackers)


def resume(directory: Folder, jobs: int = 0, track: Trackers = "") -> int:
    """Continue a run, comparison or pre-training exactly where it was stopped.

    Example: evenstream resume out/first

    Args:
        directory: The folder that was given as --out.
        jobs: For a comparison, how many runs at the same time (0: one for each core).
        track: Also log runs to tensorboard, mlflow, or both (separated by a comma).
    """
    from evenstream.checkpoint import has_checkpoint
    from evenstream.cli.pretrain_commands import resume_pretraining
    from evenstream.run.announcing import make_progress
    from evenstream.run.compare import Comparison, finished_runs
    from evenstream.run.config import COMPARISON, PRETRAINING, RunConfig
    from evenstream.run.folder import CHECKPOINTS, finished_metrics
    from evenstream.run.runner import resume_run
    from evenstream.track import Tracking, read_names

    console = _console()
    trackers = read_names(track)
    if (directory / PRETRAINING).exists():
        if trackers:
            raise InputError("--track is for runs and comparisons, not for pre-training")
        return resume_pretraining(directory)
    if (directory / COMPARISON).exists():
        comparison = Comparison.read(directory)
        if len(finished_runs(comparison, directory)) == len(list(comparison.runs())):
            console.print("all runs of this comparison are finished; here they are again")
        n_jobs = how_many(jobs, comparison.settings.threads)
        return _compare(comparison, directory, n_jobs, trackers)
    config = RunConfig.read(directory)
    _print_settings(console, config, f"{config.method} on {config.stream}, seed {config.seed}")
    if finished_metrics(directory) is not None:
        console.print("this run is finished; nothing to do")
    elif not has_checkpoint(directory / CHECKPOINTS):
        console.print("it was stopped before its first checkpoint, so it starts over")
    with Tracking(trackers, [directory], directory):
        metrics = resume_run(directory, make_progress(console))
    _print_result(console, metrics, directory)
    return 0


def report(
    directory: Folder,
    out: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: DIR/report.html)"),
    ] = None,
    budget: Budget = None,
) -> int:
    """Write a page with tables and figures for a run or a comparison.

    Example: evenstream report out/digits

    Args:
        directory: The folder of a run or a comparison.
        out: The page to write: a single file that needs no network.
        budget: Mark methods that need more image passes than er-las by this factor, such as 1.1x.
    """
    from evenstream.report import write_report

    _say(_console(), f"report: {write_report(directory, out, _times(budget))}")
    return 0


def _times(budget: str | None) -> float | None:
    from evenstream.text import read_budget

    return None if budget is None else read_budget(budget)


def _compare(comparison: Comparison, folder: Path, jobs: int, trackers: list[str]) -> int:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from evenstream.extras import MissingExtra
    from evenstream.report import write_report
    from evenstream.report.comparison.summary import write_summary
    from evenstream.report.comparison.tables import render_table
    from evenstream.report.formats import plain
    from evenstream.run.compare import compare as run_all
    from evenstream.run.compare import online_statements, run_folder
    from evenstream.run.folder import resume_command
    from evenstream.track import Tracking

    console = _console()
    settings = comparison.settings
    seeds = f"{comparison.seeds} seed{'s' if comparison.seeds > 1 else ''}"
    title = f"{', '.join(comparison.methods)} on {settings.stream}, {seeds}"
    _print_settings(console, settings, title)
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    folders = [run_folder(folder, config) for config in comparison.runs()]
    with (
        Tracking(trackers, folders, folder),
        Progress(*columns, console=console, disable=not console.is_terminal) as bar,
    ):
        total = len(comparison.methods) * comparison.seeds
        task = bar.add_task("runs", total=total)

        def said(config: RunConfig, metrics: Metrics | None, error: str | None) -> None:
            bar.advance(task)
            accuracy = metrics and f"A_T {plain(metrics.number('A_T'))} %"
            result = accuracy or f"failed: {error}"
            _say(bar.console, f"{config.method} seed {config.seed}: {result}")

        errors = run_all(comparison, folder, jobs, said)
    if len(errors) < total:
        for table in render_table(write_summary(comparison, folder)):
            console.print(table)
        for statement in online_statements(comparison, folder):
            _say(console, f"A_AUC {statement}")
        try:
            _say(console, f"report: {write_report(folder)}")
        except MissingExtra as error:  # the runs are done, and the table is printed
            say_error(f"no report: {error}, then `evenstream report {shlex.quote(str(folder))}`")
    if errors:
        again = f"`{resume_command(folder)}` tries again"
        say_error(f"error: {len(errors)} of {total} runs failed; {again}")
    return 1 if errors else 0


def _console() -> Screen:
    from evenstream.cli.screen import Screen

    return Screen()


def _say(console: Console, text: str, style: str = "") -> None:
    """Print a line verbatim: paths and methods are not markup, and lines are not wrapped."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _note_missing_weights(config: RunConfig, stream: Stream) -> None:
    from evenstream.run.initial_weights import note_missing

    note = note_missing(config, stream)
    if note:
        _say(_console(), f"note: {note}")


def _note_columns(stream: Stream) -> None:
    """Print how the columns of a table were interpreted."""
    table = stream.dataset.table
    if table is not None and not table.obvious:
        _say(_console(), table.summary())


def _print_settings(console: Screen, config: RunConfig, title: str) -> None:
    _say(console, title, style="bold")
    schedule = "" if config.batch_schedule == "constant" else f" ({config.batch_schedule})"
    _say(
        console,
        f"network {config.network}{f' from {config.weights}' if config.weights else ''}, "
        f"{f'{config.epochs} epochs per task, ' if config.epochs > 1 else ''}"
        f"memory {config.memory}, batch {config.batch}{schedule} + "
        f"{config.replay_batch} replayed"
        f"{f' in {config.steps} steps ({config.step_rows})' if config.steps > 1 else ''}"
        f", lr {config.lr:g}"
        f"{f' (divided by ten at epochs {config.milestones})' if config.milestones else ''}, "
        f"{config.optimizer}, augmentation "
        f"{config.augment}, classes by {config.class_order}, {config.device}, dtype {config.dtype}",
        style="dim",
    )


def _print_result(console: Screen, metrics: Metrics, folder: Path) -> None:
    from evenstream.errors import count
    from evenstream.report.formats import plain

    forgetting = "" if metrics["F_T"] is None else f", forgetting F_T {metrics['F_T']:.1f}"
    _say(
        console,
        f"average accuracy A_T {plain(metrics.number('A_T'))} %{forgetting}; "
        f"{metrics['steps']} steps in {metrics['train_seconds']:.1f} s, "
        f"{metrics['samples_per_second'] or 0:,.0f} samples/s, {metrics['dtype']}; "
        f"evaluation {metrics['eval_seconds']:.1f} s",
    )
    if metrics.number("relative_cost") is not None:
        _say(
            console,
            f"cost {metrics['image_passes']:,.0f} image passes, "
            f"{metrics['relative_cost']:.2f} times er-las; CPU {metrics['cpu_seconds']:.1f} s",
        )
    area = metrics.number("A_AUC")
    if area is not None:
        _say(console, f"A_AUC {area:.1f} % {metrics.online.statement}")
    for part, what in (("train", "training"), ("test", "test")):
        skipped, _ = metrics.skipped(part)
        if skipped:
            _say(console, f"left out as unreadable: {count(skipped, f'{what} sample')}")
    page = f"`evenstream report {shlex.quote(str(folder))}` turns them into a page"
    _say(console, f"results: {folder}; {page}")
