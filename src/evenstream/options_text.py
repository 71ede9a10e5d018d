"""Classes by name, and their options written as text, `key=value,...`, behind the name.

The typed fields of a dataclass are the options; this module reads and writes them.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from evenstream.errors import InputError
from evenstream.numerals import read_number

C = TypeVar("C", bound=type[Any])


def named_in(table: dict[str, Any], kind: str, name: str) -> Callable[[C], C]:
    """A decorator that puts a class into a table; only the same class may take its name again.

    The same is a class of the same name in the same module: a notebook's cell that runs twice.
    """

    def add(cls: C) -> C:
        if name in table and _full_name(table[name]) != _full_name(cls):
            raise InputError(
                f"{kind} named {name!r} is registered already ({_full_name(table[name])}); "
                "choose another name"
            )
        cls.name = name
        table[name] = cls
        return cls

    return add


def _full_name(cls: type) -> str:
    """Where a class is defined, and its name there."""
    return f"{cls.__module__}.{cls.__qualname__}"


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
        types: the options there are, each with its type: bool, int, float or a Literal.
        elsewhere: options that something else has, and its name, for a hint.
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in types:
            other = (elsewhere or {}).get(key)
            hint = f" ({key} is an option of {other})" if other else ""
            known = ", ".join(types) or "none"
            raise InputError(f"{kind} {name} has no option {key!r}{hint}; it has: {known}")
        if not equals:
            raise InputError(f"option {key!r} of {kind} {name} needs a value: {key}=...")
        if key in values:
            raise InputError(f"option {key!r} of {kind} {name} is given twice")
        values[key] = _read(f"{name}:{key}", value, types[key])
    return values


def write_options(instance: Any, default: Any = None) -> str:
    """The options of a dataclass that differ from their defaults, as they are written.

    `default` is an instance with other defaults than the fields'.
    """
    return ",".join(
        write_option(field.name, value)
        for field in dataclasses.fields(instance)
        if (value := getattr(instance, field.name))
        != (field.default if default is None else getattr(default, field.name))
    )


def write_option(name: str, value: Any) -> str:
    """An option as it is written."""
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
