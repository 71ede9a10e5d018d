"""The text forms: classes by name, with options `key=value,...` after the name.

The typed fields of a dataclass are its options. All parsing and writing of such text happens here;
the meaning of the names is known in higher layers.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import textwrap
import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal

from evenstream.errors import InputError, did_you_mean
from evenstream.numerals import read_number

LAS = "-las"
"""Suffix of a method's name: with Logit Adjusted Softmax."""
_METAVARS = {bool: "{True,False}", int: "INT", float: "FLOAT", str: "NAME"}


def metavar(kind: Any) -> str:
    """The name of a type's values in help texts."""
    kind = without_none(kind)
    return _METAVARS.get(kind) or f"{{{','.join(typing.get_args(kind))}}}"


def without_none(kind: Any) -> Any:
    """X for `X | None`; any other type unchanged."""
    if typing.get_origin(kind) in (typing.Union, UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not NoneType)
    return kind


def split_options(text: str) -> tuple[str, str]:
    """Split `NAME:key=value,...` at the colon."""
    name, _, options = text.partition(":")
    return name, options


def join_options(name: str, *options: str) -> str:
    """The inverse of `split_options`, for any number of option lists."""
    every = ",".join(filter(None, options))
    return f"{name}:{every}" if every else name


def split_stream(text: str) -> tuple[str, str]:
    """Split `STREAM:key=value,...`, where STREAM may be a path; keys have no dot or slash."""
    name, colon, options = text.rpartition(":")
    key = options.partition("=")[0]
    return (name, options) if colon and not set("./") & set(key) else (text, "")


def las_form(name: str) -> str:
    """The name of a method with Logit Adjusted Softmax."""
    return name + LAS


@dataclasses.dataclass(frozen=True)
class OptionKey:
    """A key of an experiment: the name of a field, or `OWNER:OPTION`, as in method:tau."""

    owner: str
    option: str | None

    @classmethod
    def read(cls, key: str) -> OptionKey:
        """Parse it; the names need not exist."""
        owner, colon, option = key.partition(":")
        return cls(owner, option if colon else None)

    @property
    def short(self) -> str:
        """The key without what it is an option of."""
        return self.option or self.owner


@dataclasses.dataclass(frozen=True)
class MethodText:
    """`NAME[-las][:key=value,...][@RULE]`, parsed."""

    name: str
    options: str = ""
    rule: str | None = None
    """The text after the @; None if there is no @."""

    @classmethod
    def read(cls, text: str) -> MethodText:
        """Parse it; the names need not exist."""
        written, at, rule = text.partition("@")
        return cls(*split_options(written), rule if at else None)

    def __str__(self) -> str:
        rule = "" if self.rule is None else f"@{self.rule}"
        return join_options(self.name, self.options) + rule

    @property
    def adjusted(self) -> bool:
        """Whether it is a `-las` form."""
        return self.name.endswith(LAS)

    @property
    def plain_name(self) -> str:
        """The name without `-las`."""
        return self.name.removesuffix(LAS)

    def over(self, usual: MethodText) -> MethodText:
        """Another method's text with these options, and this rule if there is one, in it."""
        given = {part.partition("=")[0] for part in self.options.split(",")}
        kept = [part for part in usual.options.split(",") if part.partition("=")[0] not in given]
        every = ",".join(filter(None, [*kept, self.options]))
        return MethodText(usual.name, every, usual.rule if self.rule is None else self.rule)

    def with_options(self, *options: str) -> MethodText:
        """The same with further options, each written as `key=value`."""
        every = ",".join(filter(None, [self.options, *options]))
        return dataclasses.replace(self, options=every)


def option_types(cls: type) -> dict[str, Any]:
    """Names and types of a dataclass's fields."""
    return dict(_option_types(cls))


@functools.cache  # evaluating annotations is slow
def _option_types(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def read_options(
    kind: str,
    name: str,
    text: str,
    types: Mapping[str, Any],
    elsewhere: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Read `key=value,...` as values of the given types.

    Args:
        kind: what has the options (`method`, `stream`), for errors.
        name: its name, for errors.
        text: what the user wrote.
        types: the available options, each with its type: bool, int, float or a Literal.
        elsewhere: options of something else, with its name, for a hint.
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in types:
            others = elsewhere or {}
            hint = f" ({key} is an option of {others[key]})" if key in others else ""
            near = "" if hint else did_you_mean(key.lower(), list({**types, **others}), 0.6)
            known = near or f"it has: {', '.join(types) or 'none'}"
            raise InputError(f"{kind} {name} has no option {key!r}{hint}; {known}")
        if not equals:
            raise InputError(f"option {key!r} of {kind} {name} needs a value: {key}=...")
        if key in values:
            raise InputError(f"option {key!r} of {kind} {name} is given twice")
        values[key] = _read(f"{name}:{key}", value, types[key])
    return values


def write_options(instance: Any, default: Any = None, prefix: str = "") -> str:
    """The options of a dataclass that differ from their defaults, as text.

    An integer in a float field is written as a float: `tau=2` and `tau=2.0` are the same. `default`
    is an instance with defaults other than the fields', `prefix` stands before each name.
    """
    types = option_types(type(instance))
    return ",".join(
        write_option(prefix + field.name, float(value) if types[field.name] is float else value)
        for field in dataclasses.fields(instance)
        if (value := getattr(instance, field.name))
        != (field.default if default is None else getattr(default, field.name))
    )


def write_option(name: str, value: Any) -> str:
    """An option as text."""
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def _read(what: str, text: str, kind: Any) -> Any:
    """Read an option's value as the type its field has."""
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise InputError(f"{what} must be true or false, got {text!r}")
    if typing.get_origin(kind) is Literal:
        if text in typing.get_args(kind):
            return text
        raise InputError(f"{what} must be one of {', '.join(typing.get_args(kind))}, got {text!r}")
    try:
        return read_number(text, kind)
    except ValueError:
        raise InputError(f"{what} must be a number ({kind.__name__}), got {text!r}") from None


def read_budget(text: str) -> float:
    """Parse a budget such as `1.1x`, a multiple of the image passes of ER-LAS."""
    try:
        times: float = read_number(text.strip().removesuffix("x"), float)
    except ValueError:
        times = 0.0
    if not 0 < times < math.inf:
        raise InputError(f"a budget is a multiple of er-las's cost, such as 1.1x; got {text!r}")
    return times


def field_docs(cls: type) -> dict[str, str]:
    """The descriptions below the fields of a class and its bases."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        found |= _own_field_docs(each)
    return found


def _own_field_docs(cls: type) -> dict[str, str]:
    """The string literals that follow the fields of a class in its source, if available."""
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
