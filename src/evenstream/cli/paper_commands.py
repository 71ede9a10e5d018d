"""`evenstream paper list`, `run` and `report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from evenstream.cli.sweep_commands import (
    STORE,
    Options,
    ScaleName,
    StoreFolder,
    SweepOptions,
    make_runs,
    run_folders,
)
from evenstream.errors import EvenstreamError, InputError, UnknownName
from evenstream.printable import say, say_error

if TYPE_CHECKING:
    from rich.table import Table

    from evenstream.report.experiments import FoundRun
    from evenstream.run.config import RunConfig
    from evenstream.sweep.estimate import Estimate
    from evenstream.sweep.plan import Plan
    from evenstream.sweep.store import Store

PAPER_REPORT = Path("out/paper-report")

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Names = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="(default: all)"),
]
Words = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[WORD ...]", help_behavior_hint="(default: all)"),
]
OneName = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: all)")]
RunFolders = Annotated[
    tuple[Path, ...], tyro.conf.arg(metavar="DIR [DIR ...]", help_behavior_hint="(default: none)")
]


def run(name: Name, settings: Options = SweepOptions()) -> int:  # noqa: B008
    """Run a table or figure of the paper, or some of its cells.

    Example: evenstream paper run mnist --scale smoke --cells method=er method=er-las

    Ctrl-C saves, and the same command continues from there; finished runs are not repeated.

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
    return make_runs(experiments()[name], settings, paper=True)


def list_(
    words: Words = (),
    stream: OneName = None,
    method: OneName = None,
    scale: ScaleName = None,
    out: StoreFolder = STORE,
    runs: RunFolders = (),
    measure: bool = False,
) -> int:
    """List the paper's tables and figures, what has been run, and how long the rest would take.

    Times are for all cores of this machine, estimated from similar finished runs: a dash if there
    are none, "over" if only some of them have any. Runs count whatever their device and precision,
    as in `paper report`; `paper run` makes exactly those you ask for.

    Example: evenstream paper list table 2

    Example: evenstream paper list --method er-ace --scale cpu --measure

    Args:
        words: Only those whose number, name or title contains all of these: figure, "table 2",
            batch.
        stream: Only experiments on this stream.
        method: Only experiments with this method.
        scale: Only experiments that have this scale.
        out: Folder of all runs.
        runs: Further folders, or files of packed runs (NAME.runs.jsonl), to search for runs.
        measure: Time a few steps of each kind of run whose time is unknown (seconds each).
    """
    from evenstream.cli.screen import Screen
    from evenstream.paper import Description, descriptions, experiments
    from evenstream.paper.choice import choose, in_order
    from evenstream.report.experiments import find_runs
    from evenstream.sweep.estimate import Estimate
    from evenstream.sweep.plan import make_plan
    from evenstream.sweep.store import Store

    scales = dict.fromkeys(name for each in experiments().values() for name in each.scale_names)
    if scale is not None and scale not in scales:
        raise UnknownName("scale", scale, scales)
    entries = in_order([*experiments().values(), *descriptions().values()])
    chosen = choose(entries, words, stream, method)
    console, store = Screen(), Store(out)
    estimate, found = Estimate(store.finished()), find_runs([*run_folders(store), *runs]).runs
    not_measured: dict[str, str] = {}
    unknown = False
    table = _overview()
    for entry in chosen:
        if isinstance(entry, Description):
            table.add_row(entry.source, entry.name, "", "", entry.title)
            continue
        if scale is not None and scale not in entry.scale_names:
            continue
        plan = make_plan(entry, scale)
        ahead = _ahead(plan, found)
        if measure:
            _measure(ahead, estimate, not_measured)
        cost = _cost(ahead, entry.at_once(0), store, estimate)
        unknown = unknown or cost.startswith(("–", "over"))
        every = len(plan.runs())
        table.add_row(entry.source, entry.name, f"{every - len(ahead)}/{every}", cost, entry.title)
    console.print(table)
    console.print(
        f"Runs and times are for the scale {scale or next(iter(scales))}; --scale takes "
        f"{', '.join(scales)}. `evenstream paper run NAME` runs one. Those without runs "
        "describe streams and need none: `evenstream streams NAME` draws a stream."
        + (" To estimate unknown times, use --measure." if unknown and not measure else ""),
        highlight=False,
    )
    for name, reason in not_measured.items():
        say_error(f"not measured: {name}: {reason}")
    return 0


def _overview() -> Table:
    """A table that gives most of each line to the titles."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    names = ("paper", "name", "runs", "time left", "what it shows")
    table = Table(*names, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in table.columns[:4]:
        column.no_wrap = True
    return table


def report(
    names: Names = (),
    store: StoreFolder = STORE,
    runs: RunFolders = (),
    out: StoreFolder = PAPER_REPORT,
) -> int:
    """Put finished runs beside the paper's numbers: Markdown, CSV, LaTeX and one HTML page.

    Example: evenstream paper report --runs out/my-runs --out out/paper-report

    States for each number whether it differs from the paper's by more than chance, and at which
    scale it was made. Runs count wherever they are and whichever command made them.

    Args:
        names: Experiments (see `evenstream paper list`).
        store: Folder in which sweeps keep their runs.
        runs: Further folders, or files of packed runs (NAME.runs.jsonl), to search for runs.
        out: Folder for the report; must be new, empty, or hold an earlier report.
    """
    from evenstream.errors import count
    from evenstream.paper.report import collect
    from evenstream.report.experiments import check_folder, write_tables

    check_folder(out)
    usual = store == STORE and not store.exists()
    contents = collect(names, [*(() if usual else (store,)), *runs])
    page = write_tables(contents, out)
    for row in contents.overview():
        cells, made = f"{row.cells} cells ({row.scales})", count(row.runs, "run")
        say(f"{row.name}: {cells}, {made}; {row.verdicts}")
    if contents.without_runs:
        missing = ", ".join(outcome.experiment.name for outcome in contents.without_runs)
        say(f"no runs: {missing}")
    if contents.unplaced:
        say(f"{count(len(contents.unplaced), 'run')} whose settings match no cell")
    for remark in contents.remarks():
        say(remark)
    _print_some(contents.search.problems)
    say(f"report: {page}")
    return 0


def _print_some(problems: Sequence[str], limit: int = 10) -> None:
    for problem in problems[:limit]:
        say_error(f"left out: {problem}")
    if len(problems) > limit:
        say_error(f"left out: {len(problems) - limit} more, on the page")


def _ahead(plan: Plan, found: Sequence[FoundRun]) -> list[RunConfig]:
    """The unfinished runs of a plan, whatever their device and weights."""
    from evenstream.report.experiments import collect_outcome

    outcome = collect_outcome(plan.experiment.at(plan.scale), found)
    done = outcome.cells.get(plan.scale, {})
    ahead = (run for cell, runs in plan.cells.items() for run in runs
             if run.seed not in done.get(cell, {}))  # fmt: skip
    return list(dict.fromkeys(ahead))


def _measure(ahead: Sequence[RunConfig], estimate: Estimate, not_measured: dict[str, str]) -> None:
    """Time a few steps of runs of unknown duration; notes streams where that fails."""
    from evenstream.sweep.cost import measure

    for config in ahead:
        if estimate.seconds(config) is None and config.stream not in not_measured:
            try:
                estimate.add(config, measure(config))
            except EvenstreamError as error:
                not_measured[config.stream] = str(error).partition(". ")[0]


def _cost(ahead: Sequence[RunConfig], jobs: int, store: Store, estimate: Estimate) -> str:
    """How long runs would take with this many in parallel, as far as known."""
    from evenstream.run.events import last_step
    from evenstream.run.workers import how_many
    from evenstream.sweep.estimate import in_words, wall_seconds

    if not ahead:
        return ""
    each = [estimate.seconds(config, last_step(store.folder(config))) for config in ahead]
    known = [seconds for seconds in each if seconds is not None]
    seconds = wall_seconds(known, how_many(jobs, 1))
    if not known or seconds is None:
        return "–"
    return ("" if len(known) == len(each) else "over ") + in_words(seconds)


COMMANDS: dict[str, Callable[..., Any]] = {"list": list_, "run": run, "report": report}
