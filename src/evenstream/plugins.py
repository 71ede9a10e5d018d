"""User code (methods, networks, scenarios, ...) that registers itself on import.

Plugins come from installed packages, through entry points in the group `evenstream.plugins` that
name modules, and from the environment variable EVENSTREAM_PLUGINS: modules or .py files, separated
by commas. Those in the environment also reach the workers of sweeps, whether processes or Ray
actors. `docs/how-to/extending.md` lists what can be registered.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from evenstream.errors import EvenstreamError, InputError

GROUP = "evenstream.plugins"
VARIABLE = "EVENSTREAM_PLUGINS"

_imported: set[str] = set()
"""The environment variable when plugins were imported."""
_lock = threading.RLock()
"""Held while plugins are imported, so that other threads look up names only afterwards."""
_importing = threading.local()


def import_plugins(*, again: bool = False) -> None:
    """Import all plugins, once; one that fails raises an error that names where it was requested.

    A plugin that looks up names while being imported sees those registered so far.

    Args:
        again: look again, for packages installed since (modules already imported stay as they are,
            files are read again).
    """
    named = os.environ.get(VARIABLE, "")
    if (named in _imported and not again) or getattr(_importing, "now", False):
        return
    with _lock:
        _importing.now = True
        try:
            if named not in _imported or again:
                _import_all(again)
                _imported.add(named)
        finally:
            _importing.now = False


def import_function(what: str, text: str) -> Callable[..., Any]:
    """A function named as `MODULE:FUNCTION`; `what` it is for is named in errors."""
    import_plugins()
    module, _, name = text.partition(":")
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except Exception as error:
        raise InputError(
            f"{what} {text!r} cannot be imported ({type(error).__name__}: {error}); its module "
            "must be installed, or in a folder of PYTHONPATH"
        ) from error
    if not callable(found):
        raise InputError(f"{what} {text!r} is not a function")
    return cast(Callable[..., Any], found)


def requested() -> list[str]:
    """The plugins in the environment, with files by absolute path, valid in any folder."""
    names = filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(",")))
    return [str(Path(name).resolve()) if name.endswith(".py") else name for name in names]


def where_from() -> str:
    """A hint about plugins for messages about unknown names."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return f"{VARIABLE} names {named}, which does not provide it"
    return f"if a plugin provides it, name the plugin in {VARIABLE}"


@contextmanager
def broken_ones_left_out() -> Iterator[dict[str, str]]:
    """A block that does without plugins that fail; yields what became of each."""
    named = os.environ.get(VARIABLE, "")
    before, found = frozenset(_imported), {}
    with _lock:
        _imported.add(named)
        for name, by in _named():
            try:
                _attempt(name, by, again=False)
            except InputError as error:
                found[name] = str(error)
            else:
                found[name] = f"imported, named by {by}"
    try:
        yield found
    finally:
        _imported.intersection_update(before)


def _named() -> Iterator[tuple[str, str]]:
    """All plugins, with where they are named."""
    for point in entry_points(group=GROUP):
        yield point.value, f"an entry point {GROUP!r}"
    for name in requested():
        yield name, VARIABLE


def _import_all(again: bool) -> None:
    for name, by in _named():
        _attempt(name, by, again)


def _attempt(name: str, named_by: str, again: bool) -> None:
    try:
        if name.endswith(".py"):
            _import_file(Path(name), again)
        else:
            importlib.import_module(name.partition(":")[0])
    except EvenstreamError as error:
        raise InputError(f"plugin {name}, named by {named_by}: {error}") from error
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"plugin {name}, named by {named_by}, fails on import: {what}") from error


def _import_file(path: Path, again: bool) -> None:
    """Execute a file as a module, unless it is already imported, or is the program itself."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]  # two files may have the same name
    module_name = f"evenstream_plugin_{path.stem}_{digest}"
    known = {name for name, module in list(sys.modules.items()) if _is_of(module, path)}
    if known - {module_name} or (known and not again):
        return
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise


def _is_of(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).name == path.name and Path(file).resolve() == path
