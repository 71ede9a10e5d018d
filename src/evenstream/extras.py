"""Packages that only some features need, and what to install when one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from evenstream.errors import InputError


class MissingExtra(InputError):
    """A package is not installed; the message names the extra that provides it."""


def require(package: str, extra: str, feature: str) -> None:
    """Check that an optional package can be imported.

    Args:
        package: its import name.
        extra: the extra of evenstream that installs it.
        feature: what needs it, as the subject of a sentence: "Drawing charts".

    Raises:
        MissingExtra: it is not installed.
    """
    if find_spec(package) is None:
        raise MissingExtra(
            f"{feature} needs {package}, which is not installed: "
            f"run pip install 'evenstream[{extra}]'"
        )
