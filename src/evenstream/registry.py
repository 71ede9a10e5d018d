"""Tables of things by name, open to users: methods, rules, heads, networks, scenarios, ...

A plugin registers its contents when imported, so plugins are imported before a name is first looked
up, in a program, a command or a worker process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from re import fullmatch
from typing import Any, Generic, TypeVar

from evenstream.errors import InputError, UnknownName, shown
from evenstream.plugins import import_plugins, where_from

T = TypeVar("T")
C = TypeVar("C")
_FORM = "[A-Za-z0-9][A-Za-z0-9_.+-]*"
"""What may stand before and after the marks : , = @ of the text forms."""


class Registry(Mapping[str, T], Generic[T]):
    """A table of classes, functions or descriptions by name.

    Args:
        kind: what it holds, for messages, such as "method".
        known: its initial contents.
        form: a regular expression that names must match.
    """

    def __init__(
        self, kind: str, known: Mapping[str, T] | None = None, *, form: str = _FORM
    ) -> None:
        self.kind, self._form = kind, form
        self._table: dict[str, T] = dict(known or {})
        self._origins = {name: where_defined(thing) for name, thing in self._table.items()}

    def register(self, name: str) -> Callable[[C], C]:
        """A decorator that registers something; only the same thing may reuse a name.

        Things are the same if they have the same name in the same module, as when a notebook cell
        runs twice.
        """

        def add(thing: C) -> C:
            self.add(name, thing)
            if isinstance(thing, type):
                thing.name = name  # type: ignore[attr-defined]
            return thing

        return add

    def register_class(self, name: str, base: type) -> Callable[[C], C]:
        """The same for a subclass of `base`, whose fields are options and have defaults."""

        def add(cls: C) -> C:
            check_class(self.kind, cls, base)
            check_defaults(self.kind, name, cls)
            return self.register(name)(cls)

        return add

    def add(self, name: str, thing: Any, origin: Any = None) -> None:
        """Register something.

        Args:
            name: its name.
            thing: what the name refers to.
            origin: the class or function it was created from, if it is not one itself.
        """
        if not (isinstance(name, str) and fullmatch(self._form, name)):
            raise InputError(
                f"{a(self.kind)} cannot be called {shown(name)}: its name must be of the form "
                f"{self._form}"
            )
        where = where_defined(thing if origin is None else origin)
        before = self._origins.setdefault(name, where)
        if before != where:
            raise InputError(
                f"{self.kind} {name!r} is already registered ({before}); choose another name"
            )
        self._table[name] = thing

    @contextmanager
    def temporary(self, others: Mapping[str, T] | None = None) -> Iterator[None]:
        """At the end of a block, forget what was registered in it (tests, notebooks).

        Args:
            others: what some names refer to in the block, whether they are taken or not.
        """
        before = self._table, self._origins
        self._table, self._origins = {**self._table, **(others or {})}, dict(self._origins)
        try:
            yield
        finally:
            self._table, self._origins = before

    def find(self, name: str) -> T:
        """The thing with this name; otherwise raises an error that lists near misses."""
        if name not in self:
            raise UnknownName(self.kind, name, self)
        return self[name]

    @property
    def hint(self) -> str:
        """Where else a name could come from."""
        return where_from()

    def __getitem__(self, name: str) -> T:
        import_plugins()
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        import_plugins()
        return iter(self._table)

    def __len__(self) -> int:
        import_plugins()
        return len(self._table)


def a(kind: str) -> str:
    """The word with its article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def check_defaults(kind: str, name: str, cls: Any) -> None:
    """Reject a class with an option that has no default."""
    for field in fields(cls):
        if field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"option {field.name!r} of {kind} {name} needs a default")


def check_class(kind: str, thing: Any, base: type) -> None:
    """Reject anything but a subclass of `base`."""
    if not (isinstance(thing, type) and issubclass(thing, base)):
        raise InputError(f"{a(kind)} must be a subclass of {base.__name__}, got {shown(thing)}")


def check_function(kind: str, thing: Any) -> None:
    """Reject anything that cannot be called."""
    if not callable(thing):
        raise InputError(f"a {kind} is registered by its function or class, got {shown(thing)}")


def check_texts(**values: Any) -> None:
    """Reject descriptions that are not text; None means no description."""
    for name, value in values.items():
        if not isinstance(value, str | None):
            raise InputError(f"{name} must be text, got {shown(value)}")


def first_line(thing: Any) -> str:
    """The first line of its own docstring; empty if there is none."""
    return inspect.cleandoc(thing.__doc__ or "").partition("\n")[0]


def where_defined(thing: Any) -> str:
    """Where a class or function is defined, and its name there."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
