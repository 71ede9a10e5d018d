"""Describe methods and other parts with options in words, for the screen and for pages."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from typing import TYPE_CHECKING, Any

from evenstream.text import field_docs

if TYPE_CHECKING:
    from evenstream.composition import Composition

COST = "F forward, G backward, b incoming, m replayed samples, M the memory's size"
"""How to read the cost of a method."""


def facts_of(composition: Composition) -> list[tuple[str, str]]:
    """The parts, needs, cost and source of a method."""
    method = composition.method
    policies = [
        f"retrieve: {words(composition.retrieval)}",
        f"store: {words(composition.storing)}",
    ]
    if not method.uses_memory:
        policies = ["no memory"]
    if method.teacher:
        policies.append(f"distil from: {words(method.teacher)}")
    return [
        ("policies", "; ".join([*policies, f"predict: {words(composition.rule)}"])),
        ("needs", ", ".join(sorted(composition.needs)) or "nothing from the stream"),
        ("cost", method.cost),
        ("paper", method.citation),
    ]


def words(slot: object) -> str:
    """The class name of a part, in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(slot).__name__).lower()


def idea(cls: type) -> str:
    """A whole docstring on one line."""
    return " ".join((inspect.getdoc(cls) or "").split())


def first_line(cls: type) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def options_of(instance: Any) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each option; the meaning is the string below its field."""
    hints = typing.get_type_hints(type(instance))
    meanings = field_docs(type(instance))
    rows = []
    for field in dataclasses.fields(instance):
        choices = ", ".join(map(str, typing.get_args(hints[field.name])))
        meaning = meanings.get(field.name, "") + (f" One of {choices}." if choices else "")
        rows.append((field.name, str(getattr(instance, field.name)), meaning.strip()))
    return rows
