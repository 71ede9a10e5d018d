"""Tables of things by name, which users add to: methods, rules, heads, networks, scenarios, ...

A plugin registers what it brings when it is imported, so plugins are imported before a name is
looked up, wherever that happens first: in a program, a command, or a worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from evenstream.errors import InputError, UnknownName
from evenstream.plugins import import_plugins

T = TypeVar("T")
C = TypeVar("C")


class Registry(Mapping[str, T], Generic[T]):
    """A table of classes, functions or descriptions by name.

    Args:
        kind: what it holds, for messages: "method".
    """

    def __init__(self, kind: str, known: Mapping[str, T] | None = None) -> None:
        self.kind = kind
        self._table: dict[str, T] = dict(known or {})

    def register(self, name: str) -> Callable[[C], C]:
        """A decorator that enters something; only the same thing may take a name again.

        The same is what has the same name in the same module: a notebook's cell that runs twice.
        """

        def add(thing: C) -> C:
            self.add(name, thing)
            if isinstance(thing, type):
                thing.name = name  # type: ignore[attr-defined]
            return thing

        return add

    def add(self, name: str, thing: Any) -> None:
        """Enter something."""
        if name in self._table and _where(self._table[name]) != _where(thing):
            raise InputError(
                f"{self.kind} {name!r} is registered already ({_where(self._table[name])}); "
                "choose another name"
            )
        self._table[name] = thing

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Forget at the end of a block what was registered in it (tests, notebooks)."""
        before = dict(self._table)
        try:
            yield
        finally:
            self._table = before

    def find(self, name: str) -> T:
        """What has this name; an error that names near misses if nothing has."""
        if name not in self:
            raise UnknownName(self.kind, name, self)
        return self[name]

    def __getitem__(self, name: str) -> T:
        import_plugins()
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        import_plugins()
        return iter(self._table)

    def __len__(self) -> int:
        import_plugins()
        return len(self._table)


def _where(thing: Any) -> str:
    """Where a class or function is defined, and its name there."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(thing))}"
