"""`evenstream run`, `compare`, `resume` and `report`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from evenstream.cli.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from evenstream.run.compare import Comparison
    from evenstream.run.config import RunConfig

MethodName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")]
MethodNames = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="METHOD [METHOD ...]")
]
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
NewFolder = Annotated[
    Path | None,
    tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: out/..., after the stream)"),
]
SettingsFlags = Annotated[Settings, tyro.conf.OmitArgPrefixes]


def run(method: MethodName, settings: SettingsFlags = Settings(), out: NewFolder = None) -> int:  # noqa: B008
    """Train one method on one stream, once.

    Example: evenstream run er-las:tau=2 --stream c-digits --memory 100 --out out/first

    Writes config.toml, events.jsonl, metrics.json, env.json and checkpoints. Ctrl-C saves;
    `evenstream resume DIR` goes on exactly there.

    Args:
        method: NAME[:key=value,...], as in er, er-las, er-las:tau=inf,window=5.
        settings: Options of the run.
        out: Folder for the run; must be new or empty.
    """
    from evenstream.run.progress import make_progress
    from evenstream.run.runner import start_run

    console = _console()
    config = settings.resolve(method)
    folder = out or Path("out") / f"{_slug(config.stream)}_{_slug(method)}_seed-{config.seed}"
    _print_settings(console, config, f"{method} on {config.stream}, seed {config.seed}")
    metrics = start_run(config, folder, make_progress(console))
    _print_result(console, metrics, folder)
    return 0


def compare(
    methods: MethodNames,
    settings: SettingsFlags = Settings(),  # noqa: B008
    seeds: int = 5,
    jobs: Annotated[int, tyro.conf.arg(help_behavior_hint="(default: one for each core)")] = 0,
    out: NewFolder = None,
) -> int:
    """Train several methods on the same seeds and say how sure the differences are.

    Example: evenstream compare fine-tune er er-las --stream c-digits --seeds 10 --out out/digits

    Writes a run folder for each method and seed, summary.json and report.html.

    Args:
        methods: NAME[:key=value,...] for each; later ones are compared with earlier ones.
        settings: Options of every run.
        seeds: How many seeds each method is trained with.
        jobs: Runs at the same time, each a process with --threads threads.
        out: Folder for the comparison; must be new or empty.
    """
    from evenstream.methods import make_method
    from evenstream.run.compare import Comparison
    from evenstream.run.runner import claim_folder

    for method in methods:
        make_method(method)
    comparison = Comparison(methods, seeds, settings.resolve(methods[0] if methods else "er"))
    stream = comparison.settings.stream
    folder = out or Path("out") / f"{_slug(stream)}_{'_'.join(map(_slug, methods))}"
    claim_folder(folder)
    comparison.write(folder)
    return _compare(comparison, folder, jobs)


def resume(directory: Folder, jobs: int = 0) -> int:
    """Go on with a run or a comparison that was stopped, exactly where it stopped.

    Example: evenstream resume out/first

    Args:
        directory: The folder given as --out before.
        jobs: Runs at the same time, for a comparison (0: one for each core).
    """
    from evenstream.run.compare import COMPARISON, Comparison
    from evenstream.run.progress import make_progress
    from evenstream.run.runner import read_metrics, resume_run

    console = _console()
    if (directory / COMPARISON).exists():
        return _compare(Comparison.read(directory), directory, jobs)
    before = read_metrics(directory)
    if before is not None and before["status"] == "finished":
        console.print("this run is finished; nothing to do")
    metrics = resume_run(directory, make_progress(console))
    _print_result(console, metrics, directory)
    return 0


def report(
    directory: Folder,
    out: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: DIR/report.html)"),
    ] = None,
) -> int:
    """Write a page with tables and figures for a run or a comparison.

    Example: evenstream report out/digits

    Args:
        directory: The folder of a run or a comparison.
        out: The page to write; one file, no network needed to look at it.
    """
    from evenstream.report import write_report

    path = write_report(directory, out)
    _console().print(f"report: {path}", highlight=False, soft_wrap=True)
    return 0


def _compare(comparison: Comparison, folder: Path, jobs: int) -> int:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from evenstream.report import write_report
    from evenstream.report.summary import render_table
    from evenstream.run.compare import compare as run_all
    from evenstream.run.compare import write_summary

    console = _console()
    settings = comparison.settings
    jobs = jobs if jobs > 0 else max(1, (os.cpu_count() or 1) // settings.threads)
    title = f"{', '.join(comparison.methods)} on {settings.stream}, {comparison.seeds} seeds"
    _print_settings(console, settings, title)
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        total = len(comparison.methods) * comparison.seeds
        task = bar.add_task("runs", total=total)

        def said(config: RunConfig, metrics: dict[str, Any] | None, error: str | None) -> None:
            bar.advance(task)
            what = f"{config.method} seed {config.seed}"
            if metrics is None:
                bar.console.print(f"{what}: failed: {error}", highlight=False, markup=False)
            else:
                bar.console.print(f"{what}: A_T {metrics['A_T']:.1f} %", highlight=False)

        errors = run_all(comparison, folder, jobs, said)
    summary = write_summary(comparison, folder)
    for table in render_table(summary):
        console.print(table)
    page = write_report(folder)
    console.print(f"report: {page}", highlight=False, soft_wrap=True)
    if errors:
        console.print(
            f"{len(errors)} of {total} runs failed; `evenstream resume {folder}` tries them again",
            highlight=False,
            soft_wrap=True,
        )
    return 1 if errors else 0


def _console() -> Console:
    from rich.console import Console

    return Console()


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", Path(text).name)


def _print_settings(console: Console, config: RunConfig, title: str) -> None:
    console.print(f"[bold]{title}[/bold]", highlight=False)
    console.print(
        f"network {config.network}, memory {config.memory}, batch {config.batch} + "
        f"{config.replay_batch} replayed, lr {config.lr:g}, {config.optimizer}, augmentation "
        f"{config.augment}, classes by {config.class_order}, {config.device}, dtype {config.dtype}",
        highlight=False,
        style="dim",
    )


def _print_result(console: Console, metrics: dict[str, Any], folder: Path) -> None:
    forgetting = "" if metrics["F_T"] is None else f", forgetting F_T {metrics['F_T']:.1f}"
    console.print(
        f"average accuracy A_T {metrics['A_T']:.1f} %{forgetting}; "
        f"{metrics['steps']} steps in {metrics['train_seconds']:.1f} s, "
        f"{metrics['samples_per_second']:,.0f} samples/s, {metrics['dtype']}",
        highlight=False,
    )
    console.print(f"results: {folder}", highlight=False, soft_wrap=True)
