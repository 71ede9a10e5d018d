"""`evenstream methods` and `evenstream streams`: list and explain what is available."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from evenstream.choosing import ALIASES, MADE_FOR, made_for
from evenstream.cli.descriptions import COST, facts_of, first_line, idea, options_of
from evenstream.errors import EvenstreamError, InputError, some_of
from evenstream.files import safe_name

if TYPE_CHECKING:
    from evenstream.cli.screen import Screen
    from evenstream.composition import Composition
    from evenstream.policies.rules import InferenceRule
    from evenstream.streams import Stream
    from evenstream.streams.profile import Profile

OptionalName = Annotated[
    str | None,
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[NAME]", help_behavior_hint="(default: list all)"),
]
PictureFile = Annotated[
    Path | None,
    tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: out/stream_NAME.png)"),
]


def methods(name: OptionalName = None) -> int:
    """List the methods and inference rules, or explain one and its options.

    Example: evenstream methods er-las

    Args:
        name: A method or an inference rule to explain.
    """
    from evenstream.cli.screen import Screen
    from evenstream.composition import compose, read_rule
    from evenstream.methods import METHODS
    from evenstream.policies.rules import RULES
    from evenstream.text import MethodText, split_options

    console = Screen()
    if name is None:
        _list_methods(console)
        return 0
    said = MethodText.read(name)
    rule = said.rule if said.rule and not said.name else name
    known, _ = split_options(rule)
    if known in RULES and known not in METHODS:
        _explain_rule(console, read_rule(rule))
    else:
        _explain_method(console, compose(name), made_for(name, ()))
    return 0


def _list_methods(console: Screen) -> None:
    """List all methods and their parts, then the rules."""
    from rich.table import Table

    from evenstream.composition import compose
    from evenstream.methods import METHODS
    from evenstream.policies.rules import RULES
    from evenstream.text import las_form

    for key in sorted(METHODS):
        composition = compose(key)
        method = composition.method
        forms = [key] + ([las_form(key)] if method.why_not_las is None else [])
        forms += [alias for alias, meant in ALIASES.items() if meant in forms]
        console.print(", ".join(forms), style="bold", highlight=False)
        _print_facts(console, [("idea", first_line(type(method))), *facts_of(composition)])
    for alias in sorted(ALIASES.keys() & MADE_FOR.keys()):
        console.print(alias, style="bold", highlight=False)
        _print_facts(console, [("stands for", ALIASES[alias]), _settings(MADE_FOR[alias])])
    table = Table("inference rule", "what it does", "options")
    for key in sorted(RULES):
        options = ", ".join(field.name for field in dataclasses.fields(RULES[key]))
        table.add_row(f"@{key}", first_line(RULES[key]), options)
    console.print(table)
    console.print(
        "-las: the same method with Logit Adjusted Softmax in place of cross-entropy.\n"
        "@RULE: the same method with a different way to predict: er-las@ncm.\n"
        f"Cost: {COST}.\n"
        "Write options after a colon: er-las:tau=2,window=5@ema:decay=0.999. "
        "`evenstream methods NAME` lists them.",
        highlight=False,
    )


def _settings(usual: Mapping[str, Any]) -> tuple[str, str]:
    """What a method is made for, as a fact."""
    return "made for", ", ".join(f"{name}={value}" for name, value in usual.items())


def _explain_method(console: Screen, composition: Composition, usual: Mapping[str, Any]) -> None:
    """Show what a method does, its parts, the settings it is made for, and all its options."""
    from rich.table import Table

    from evenstream.composition import LogitAdjustment

    method = composition.method
    console.print(composition.text, style="bold", highlight=False)
    adjustment = LogitAdjustment.of(composition.criterion)
    criterion = "Logit Adjusted Softmax" if adjustment else "cross-entropy"
    facts = [("idea", idea(type(method))), *facts_of(composition), ("criterion", criterion)]
    if usual:
        facts.append(_settings(usual))
    if method.why_not_las is not None:
        facts.append(("no -las", method.why_not_las))
    _print_facts(console, facts)
    table = Table("option", "value", "meaning")
    for option, value, meaning in _all_options(composition):
        table.add_row(option, value, " ".join(meaning.split()))
    console.print(table)
    if adjustment is None and method.why_not_las is None:
        known = ", ".join(field.name for field in dataclasses.fields(LogitAdjustment))
        console.print(f"  {method.name}-las has {known} as well", highlight=False)
    console.print(f"Cost: {COST}.", highlight=False)


def _all_options(composition: Composition) -> Iterator[tuple[str, str, str]]:
    """Name, value and meaning of all options in the text form."""
    from evenstream.composition import LogitAdjustment, storing_name
    from evenstream.core.heads import HEADS
    from evenstream.policies.storing import STORING

    yield from options_of(composition.method)
    adjustment = LogitAdjustment.of(composition.criterion)
    if adjustment is not None and composition.method.why_not_las is None:
        yield from options_of(adjustment)
    kinds = " ".join(f"{name}: {first_line(cls)}" for name, cls in HEADS.items())
    yield "head", composition.head.name, kinds
    for name, cls in HEADS.items():
        shown = composition.head if type(composition.head) is cls else cls()
        for option, value, meaning in options_of(shown):
            yield f"head_{option}", value, f"{meaning} (head={name})"
    stores = storing_name(composition.storing)
    if composition.method.uses_memory and stores == "reservoir":
        kinds = " ".join(f"{name}: {first_line(cls)}" for name, cls in STORING.items())
        yield "storing", stores, kinds
    if type(composition.rule) is not type(composition.method.make_rule()):
        for option, value, meaning in options_of(composition.rule):
            yield f"@{option}", value, meaning


def _explain_rule(console: Screen, rule: InferenceRule) -> None:
    """Show how a rule predicts, and its options."""
    from rich.table import Table

    from evenstream.composition import rule_text

    console.print(f"@{rule_text(rule)}, an inference rule", style="bold", highlight=False)
    needs = ", ".join(sorted(rule.needs)) or "nothing from the stream"
    _print_facts(console, [("idea", idea(type(rule))), ("needs", needs)])
    options = options_of(rule)
    if options:
        table = Table("option", "value", "meaning")
        for option, value, meaning in options:
            table.add_row(option, value, " ".join(meaning.split()))
        console.print(table)
    console.print(
        f"Write it after a method: er@{rule_text(rule)}. It changes how the method predicts, not "
        "how it is trained.",
        highlight=False,
    )


def streams(name: OptionalName = None, seed: int = 0, picture: PictureFile = None) -> int:
    """List the streams, or show and draw one: its tasks, its classes over time, its options.

    Example: evenstream streams s-cifar100

    Args:
        name: A stream as PREFIX-DATASET[:key=value,...], or a path.
        seed: Seed for everything random in the stream.
        picture: PNG file for the drawing.
    """
    from evenstream.cli.screen import Screen

    console = Screen()
    if name is None:
        _list_streams(console)
    else:
        _explain_stream(console, name, seed, picture)
    return 0


def _list_streams(console: Screen) -> None:
    """List the named streams, then the prefixes that turn any data set into a stream."""
    from rich.table import Table

    from evenstream.streams import SCENARIOS, STREAMS

    table = Table("stream", "tasks", "network", "batch", "memory", "what it is")
    for key, info in STREAMS.items():
        protocol = info.protocol
        batch = f"{protocol.batch}+{protocol.replay_batch}"
        cells = (key, str(info.tasks), protocol.network, batch, str(protocol.memory))
        table.add_row(*cells, info.description)
    console.print(table)
    table = Table("prefix", "what it makes of any data set", "options")
    for prefix, scenario in SCENARIOS.items():
        options = ", ".join(field.name for field in dataclasses.fields(scenario))
        table.add_row(f"{prefix}-", first_line(scenario), options)
    console.print(table)
    console.print(
        "Write PREFIX-DATASET[:key=value,...]: b-cifar10:minor=5. The data set is one of "
        "`evenstream data list`, or the path of an .npz, .csv or .parquet file or of a folder "
        "of images; a path alone is a class-incremental stream. "
        "`evenstream streams NAME` explains the options.",
        highlight=False,
    )


def _explain_stream(console: Screen, name: str, seed: int, picture: Path | None) -> None:
    """Show one stream: its tasks, protocol and options, and the files with its classes."""
    from rich.table import Table

    from evenstream.report.charts.stream_picture import save_stream_png
    from evenstream.streams import coupling, open_stream, read_spec
    from evenstream.streams.profile import profile, write_counts

    spec = read_spec(name)
    file = picture or Path("out") / f"stream_{safe_name(name)}.png"
    counts_file = _counts_file(file, spec.dataset)
    stream = open_stream(name, seed=seed)
    found = profile(stream, bins=1)
    _print_tasks(console, stream, found)
    facts = dataclasses.asdict(stream.protocol)
    facts |= {"boundaries": stream.boundaries, "drop_last": stream.drop_last}
    if stream.domains is not None:
        facts |= {"domains": some_of(stream.domains.names), "coupling": f"{coupling(stream):.3f}"}
    for title, value in facts.items():
        console.print(f"  {title:13} {value}", highlight=False)
    if stream.dataset.table is not None:
        console.print(stream.dataset.table.summary(), highlight=False, markup=False)
    table = Table("option", "value", "meaning")
    for option, value, meaning in options_of(spec.scenario):
        table.add_row(option, value, " ".join(meaning.split()))
    console.print(table)
    try:
        save_stream_png(stream, file)
        write_counts(found, counts_file)
    except OSError as error:
        raise EvenstreamError(f"cannot write {file}: {error.strerror or error}") from error
    console.print(
        f"class frequencies over time: {file}, in numbers: {counts_file}",
        highlight=False,
        soft_wrap=True,
    )


def _counts_file(picture: Path, data: str | Path) -> Path:
    """The file for the numbers beside a picture; refuses to overwrite the data itself."""
    if not picture.name or picture.is_dir() or picture.suffix == ".csv":
        raise InputError(f"--picture {picture}: give the name of a PNG file")
    counts = picture.with_suffix(".csv")
    for file in (picture, counts):
        if isinstance(data, Path) and data.exists() and file.exists() and file.samefile(data):
            raise InputError(f"{file} is the data itself; choose another --picture")
    return counts


def _print_tasks(console: Screen, stream: Stream, found: Profile) -> None:
    """The tasks of a stream, one row each."""
    from rich.table import Table

    table = Table("task", "tested on", "classes", "new", "training", "steps", "test")
    for index, (task, names) in enumerate(zip(stream.tasks, stream.class_names(), strict=True)):
        counts = (
            found.classes_per_task[index],
            found.new_classes_per_task[index],
            len(task.train),
            stream.steps(index, stream.protocol.batch),
            len(task.test),
        )
        table.add_row(str(index + 1), some_of(names), *map(str, counts))
    console.print(table)


def _print_facts(console: Screen, facts: list[tuple[str, str]]) -> None:
    """Titles on the left, with wrapped text beside them."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 2))
    table.add_column(no_wrap=True, style="dim", min_width=9)
    for title, text in facts:
        table.add_row(title, text)
    console.print(table, highlight=False)
