"""The reference of the public API, from its docstrings."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import evenstream
from tools.website.page import Page

REGISTER = "register"


def reference_pages() -> list[Page]:
    """One page for the top of the package, one for what registers, and one for each module."""
    names = [name for name in evenstream.__all__ if not inspect.ismodule(_public(name))]
    top = [name for name in names if not name.startswith(REGISTER)]
    registering = [name for name in names if name.startswith(REGISTER)]
    return [
        _page("evenstream", "What you import from the package itself.", top),
        _page("registering", "Decorators that give your own parts a name.", registering),
        *[_module_page(name) for name in evenstream.__all__ if _has_page(name)],
    ]


def _page(title: str, about: str, names: list[str]) -> Page:
    blocks = [f"::: {_home(_public(name), name)}" for name in names]
    return Page(f"reference/api/{title}.md", title, _text(f"`{title}`", about, blocks))


def _module_page(name: str) -> Page:
    module: ModuleType = getattr(evenstream, name)
    documented = [
        (shown, getattr(module, shown))
        for shown in module.__all__
        if inspect.isclass(getattr(module, shown)) or inspect.isfunction(getattr(module, shown))
    ]
    blocks = [f"::: {_home(value, shown)}" for shown, value in documented]
    title = f"`evenstream.{name}`"
    text = _text(title, inspect.getdoc(module) or "", blocks)
    return Page(f"reference/api/{name}.md", f"evenstream.{name}", text)


def _has_page(name: str) -> bool:
    """Whether it is a module; the classes of `methods` are on the methods' own pages."""
    return name != "methods" and inspect.ismodule(_public(name))


def _public(name: str) -> Any:
    return getattr(evenstream, name)


def _home(value: Any, name: str) -> str:
    return f"{value.__module__}.{getattr(value, '__qualname__', name)}"


def _text(title: str, about: str, blocks: list[str]) -> str:
    return "\n\n".join([f"# {title}", about, *blocks]) + "\n"
