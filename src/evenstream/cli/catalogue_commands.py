"""`evenstream methods` and `evenstream streams`: what there is."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from typing import Annotated, Any

import tyro

OptionalName = Annotated[
    str | None,
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[NAME]", help_behavior_hint="(default: list all)"),
]

_COST = "F forward, G backward, b incoming, m replayed samples"


def methods(name: OptionalName = None) -> int:
    """List the methods, or explain one and its options.

    Example: evenstream methods er-las

    Args:
        name: A method to explain.
    """
    from rich.console import Console
    from rich.table import Table

    from evenstream.methods import METHODS, make_method
    from evenstream.methods.adjustment import LogitAdjustment
    from evenstream.slots.criteria import CrossEntropy

    console = Console()
    if name is None:
        table = Table("method", "what it does", "memory", "needs", "cost a step", show_lines=False)
        for key, cls in sorted(METHODS.items()):
            shown = f"{key}\n{key}-las" if cls.has_cross_entropy else key
            memory = "yes" if cls.uses_memory else "no"
            needs = ", ".join(sorted(cls.needs)) or "-"
            table.add_row(shown, _first_line(cls), memory, needs, cls.cost)
        console.print(table)
        console.print(
            "-las: the same method with Logit Adjusted Softmax in place of cross-entropy.\n"
            f"Cost: {_COST}.\n"
            "Write options behind a colon: er-las:tau=2,window=5. "
            "`evenstream methods NAME` lists them.",
            highlight=False,
        )
        return 0
    method = make_method(name)
    criterion = method.adjustment.build(seed=0) if method.adjustment else CrossEntropy()
    needed = method.needs | criterion.needs
    console.print(f"[bold]{method.spec}[/bold]: {_first_line(type(method))}", highlight=False)
    for title, text in (
        ("paper", method.citation),
        ("cost a step", f"{method.cost}   ({_COST})"),
        ("needs", ", ".join(sorted(needed)) or "nothing from the stream"),
        ("retrieval", type(method.retrieval).__name__),
        ("update", type(method.update).__name__ if method.uses_memory else "no memory"),
        ("inference", type(method.inference).__name__),
        ("criterion", "Logit Adjusted Softmax" if method.adjustment else "cross-entropy"),
    ):
        console.print(f"  {title:12} {text}", highlight=False, markup=False)
    targets: list[Any] = [method] + ([method.adjustment] if method.adjustment else [])
    rows = [row for target in targets for row in _options(target)]
    table = Table("option", "value", "meaning")
    for row in rows:
        table.add_row(*row)
    if rows:
        console.print(table)
    elif method.adjustment is None and type(method).has_cross_entropy:
        known = ", ".join(field.name for field in dataclasses.fields(LogitAdjustment))
        console.print(f"  no options; {method.name}-las has {known}", highlight=False)
    return 0


def streams(name: OptionalName = None) -> int:
    """List the streams, or show the tasks and the protocol of one.

    Example: evenstream streams c-digits

    Args:
        name: A stream, or an .npz file.
    """
    from rich.console import Console
    from rich.table import Table

    from evenstream.streams import STREAMS, open_stream

    console = Console()
    if name is None:
        table = Table("stream", "tasks", "network", "batch", "memory", "what it is")
        for key, info in STREAMS.items():
            protocol = info.protocol
            batch = f"{protocol.batch}+{protocol.replay_batch}"
            cells = (key, str(info.tasks), protocol.network, batch, str(protocol.memory))
            table.add_row(*cells, info.description)
        console.print(table)
        console.print("or a path to an .npz file: a class-incremental stream over its classes")
        return 0
    stream = open_stream(name)
    table = Table("task", "classes", "training samples", "steps", "test samples")
    for index, (task, names) in enumerate(zip(stream.tasks, stream.class_names(), strict=True)):
        steps = stream.steps(index, stream.protocol.batch)
        sizes = (str(len(task.train)), str(steps), str(len(task.test)))
        table.add_row(str(index + 1), ", ".join(names), *sizes)
    console.print(table)
    for field in dataclasses.fields(stream.protocol):
        value = getattr(stream.protocol, field.name)
        console.print(f"  {field.name:13} {value}", highlight=False)
    return 0


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _options(instance: Any) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each option: the string below its field, in whichever class."""
    hints = typing.get_type_hints(type(instance))
    meanings: dict[str, str] = {}
    for cls in reversed(type(instance).__mro__):
        meanings |= _field_docs(cls)
    rows = []
    for field in dataclasses.fields(instance):
        choices = ", ".join(map(str, typing.get_args(hints[field.name])))
        meaning = meanings.get(field.name, "") + (f" One of {choices}." if choices else "")
        rows.append((field.name, str(getattr(instance, field.name)), meaning.strip()))
    return rows


def _field_docs(cls: type) -> dict[str, str]:
    """The string literals that follow the fields of a class in its source, if that is there."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError):
        return {}
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
