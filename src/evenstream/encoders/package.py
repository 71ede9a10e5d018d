"""Finds files shipped with other packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from evenstream.errors import InputError


def package_folder(package: str, extra: str) -> Path:
    """The folder of an installed package, without importing it.

    Raises:
        InputError: it is not installed; the error says how to install it.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the package {package} is not installed; run pip install 'evenstream[{extra}]'"
        )
    return Path(spec.submodule_search_locations[0])
