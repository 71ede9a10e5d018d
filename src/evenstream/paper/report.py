"""The report on the paper: our runs beside its printed numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache, partial
from pathlib import Path

from evenstream.errors import EvenstreamError, UnknownName
from evenstream.paper.choice import in_order
from evenstream.paper.contents import (
    Description,
    above_tables,
    descriptions,
    experiments,
    notes,
    printed_beside,
    printed_lines,
    printed_runs,
)
from evenstream.paper.overview import summary
from evenstream.report.charts.bars import count_bars_svg
from evenstream.report.experiments import (
    Background,
    Contents,
    Further,
    Outcome,
    Search,
    Stated,
    collect_outcome,
    find_runs,
)
from evenstream.report.html import labelled, lines, scroll
from evenstream.report.table import Column, Table
from evenstream.run.sameness import canonical
from evenstream.streams.profile import Profile, profile
from evenstream.sweep.experiment import Cell, Experiment


def background(experiment: Experiment) -> Background:
    """What the paper prints about an experiment, and where it contradicts itself."""
    own, runs = set(experiment.cells()), printed_runs()

    @cache  # the pages, the tables and their files ask for the same cells
    def stated(cell: Cell, scale: str) -> dict[str, list[Stated]]:
        if cell not in own:
            return {}
        judged = not any(chosen(cell) for chosen in experiment.chosen_on)
        same = _data(experiment, cell, scale) == _data(experiment, cell, experiment.base)
        return {
            metric: sorted(
                (
                    Stated(v.mean, v.std, runs, v.decimals, v.source, same, judged, v.std_decimals)
                    for v in values
                ),
                key=lambda value: value.source != experiment.source,
            )
            for metric, values in printed_beside(experiment, cell).items()
        }

    command = f"evenstream paper run {experiment.name}"
    name = experiment.name
    above = partial(above_tables, name)
    return Background(stated, "the paper", tuple(notes(name)), command, above)


def _data(experiment: Experiment, cell: Cell, scale: str) -> tuple[str, float | None, int]:
    """What a cell learns from: the stream with all its options, and the number of passes."""
    (run,) = experiment.configs(cell, scale, seeds=1)
    run = canonical(run)
    return run.stream, run.test_fraction, run.epochs


def collect(names: Sequence[str], folders: Sequence[Path]) -> Contents:
    """The report's contents for some or all of the paper's tables and figures.

    Args:
        names: experiments and descriptions; none means all.
        folders: where runs are searched for.
    """
    known = [*experiments(), *descriptions()]
    for name in names:
        if name not in known:
            raise UnknownName("experiment", name, known)
    chosen = [name for name in known if not names or name in names]
    search = find_runs(folders)
    outcomes = outcomes_of(search, chosen)
    described = [entry for name, entry in descriptions().items() if name in chosen]
    placed = {run.key for outcome in outcomes for run in outcome.runs}
    return Contents(
        "The paper's tables and figures",
        _lead(len(placed)),
        outcomes,
        search,
        () if names else [run for run in search.runs if run.key not in placed],
        [_describe(entry) for entry in described],
        summary(outcomes, described),
    )


def outcomes_of(search: Search, names: Collection[str]) -> list[Outcome]:
    """The outcomes of the named experiments."""
    return [
        collect_outcome(experiment, search.runs, background(experiment))
        for name, experiment in experiments().items()
        if name in names
    ]


def _lead(runs: int) -> str:
    guessed = [each for each in experiments().values() if each.inferred]
    inferred = [each.source for each in in_order(guessed)]
    return (
        f"{runs:,} of our runs beside the numbers that the paper prints, which are means and "
        f"deviations of {printed_runs()} runs. Numbers made at a smaller scale are labelled with "
        "what is different about it; only those at the scale “paper” follow the paper's protocol, "
        f"which for {_in_words(inferred)} is inferred from public code: the paper prints none."
    )


def _in_words(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


# ---- tables and figures of data --------------------------------------------------------------


def _describe(entry: Description) -> Further:
    """A table or figure that needs no runs: printed numbers, or drawn from data if available.

    The data sets are read from where `evenstream data` keeps them; nothing is downloaded.
    """
    own = tuple(notes(entry.name))
    rows = printed_lines(entry.name)
    if rows:
        text = f"As the paper prints them ({entry.source}), and as they are on this machine."
        return Further(entry.name, entry.title, text, _data_sets(rows), notes=own)
    (name,) = entry.streams
    try:
        from evenstream.streams import open_stream

        found = profile(open_stream(name), bins=1)
    except EvenstreamError as error:
        reason = str(error).partition(". ")[0]
        text = f"In the paper: {entry.source}. Drawn from the data, which is missing: {reason}."
        return Further(entry.name, entry.title, text, notes=own)
    per_class = found.domains_per_class
    html = _classes(found) if per_class is None else _domains(found)
    text = f"In the paper: {entry.source}. Counted in the stream {name}."
    return Further(entry.name, entry.title, text, html=html, notes=own)


def _data_sets(rows: Sequence[dict[str, str]]) -> Table:
    columns = [name for name in rows[0] if name != "source"]
    first, *others = (name.replace("_", " ") for name in columns)
    heads = (Column(first, left=True, head=True), *map(Column, others))
    return Table(
        "Data sets",
        "",
        (*heads, Column("on this machine", left=True)),
        tuple((*(row[name] for name in columns), _on_this_machine(row)) for row in rows),
    )


def _on_this_machine(printed: dict[str, str]) -> str:
    """A data set as it is read here, beside a line of the paper's table."""
    from evenstream.data import load_dataset

    try:
        data = load_dataset(printed["dataset"])
    except EvenstreamError:
        return "not there"
    counts = {"train": len(data.y_train), "test": len(data.y_test), "classes": len(data.classes)}
    size = "x".join(map(str, data.x_train.shape[1:]))
    found = {"image_size": size, **{name: str(number) for name, number in counts.items()}}
    other = [f"{name.replace('_', ' ')} {v}" for name, v in found.items() if v != printed[name]]
    return ", ".join(other) or "the same"


def _classes(found: Profile) -> str:
    counts = found.classes_per_task
    axes = ("Classes", "Task")
    svg = count_bars_svg(counts, axes, (720, 300), "classes-per-task")
    return scroll(labelled(svg, f"Classes of each task: {counts}."), "Classes of each task")


def _domains(found: Profile) -> str:
    """A small chart for each task, as in the paper: how many subclasses of each superclass."""
    per_class = found.domains_per_class
    assert per_class is not None
    top = 1.05 * int(per_class.max())
    boxes = []
    for task, row in enumerate(per_class):
        counts = [int(n) for n in row]
        svg = count_bars_svg(
            counts, ("Subclasses", "Superclass"), (340, 180), f"subclasses-{task}", top
        )
        label = f"Subclasses of each superclass in task {task + 1}: {counts}."
        boxes.append(
            f'<div class="chart tall"><h3>Task {task + 1}</h3>{labelled(svg, label)}</div>'
        )
    return f'<div class="panels">\n{lines(boxes)}\n</div>'
