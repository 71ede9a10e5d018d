"""Code of the user's own (methods, networks, scenarios, ...) that registers itself on import.

They come from installed packages, by entry points of the group `evenstream.plugins`, and from the
environment variable EVENSTREAM_PLUGINS: modules or files ending in .py, separated by commas. An
environment reaches the worker processes of sweeps, too.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path

from evenstream.errors import EvenstreamError, InputError

GROUP = "evenstream.plugins"
VARIABLE = "EVENSTREAM_PLUGINS"


_imported: set[str] = set()
"""What the environment named when plugins were last imported."""


def import_plugins() -> None:
    """Import all plugins, once; one that fails raises an error that names where it was requested.

    A plugin that looks names up while it is imported sees those that are there.
    """
    named = os.environ.get(VARIABLE, "")
    if named in _imported:
        return
    _imported.add(named)
    try:
        _import_all(named)
    except BaseException:
        _imported.discard(named)
        raise


def _import_all(named: str) -> None:
    for point in entry_points(group=GROUP):
        _attempt(point.value, f"an entry point {GROUP!r}")
    for name in filter(None, map(str.strip, named.split(","))):
        _attempt(name, VARIABLE)


def _attempt(name: str, named_by: str) -> None:
    try:
        _import(name)
    except EvenstreamError as error:
        raise InputError(f"plugin {name}, named by {named_by}: {error}") from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"plugin {name}, named by {named_by}, fails on import: {what}") from error


def _import(name: str) -> None:
    if not name.endswith(".py"):
        importlib.import_module(name.partition(":")[0])
        return
    path = Path(name).resolve()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]  # two files may have one name
    module_name = f"evenstream_plugin_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
