"""Everything a command leaves in a folder, except times."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenstream.checkpoint import fingerprint, has_checkpoint, read_checkpoint
from evenstream.errors import EvenstreamError

OF_THE_MOMENT = ("env.json", ".html", ".md", ".tex", ".png", "lock")
"""Ends of the names of files of which only the presence counts: they tell the time, or nothing."""


def outcome(folder: Path) -> dict[str, Any]:
    """What is there, by name; the checkpoints in a folder are one thing.

    A file that a killed process had no time to give its name is ignored, as by all commands.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            found |= {f"{path.name}/{name}": value for name, value in outcome(path).items()}
        elif not path.name.startswith("checkpoint-") and path.suffix != ".tmp":
            found[path.name] = _readable(_content, path)
    if has_checkpoint(folder):
        found["learner"] = _readable(_learner, folder)
    return found


def difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Where two outcomes differ; empty if they do not."""
    return "\n".join(
        f"{name}: {str(found.get(name, 'missing'))[:300]} instead of "
        f"{str(expected.get(name, 'nothing'))[:300]}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    )


def _readable(read: Callable[[Path], Any], path: Path) -> Any:
    try:
        return read(path)
    except (OSError, ValueError, EvenstreamError) as error:
        return f"unreadable: {error}"


def _learner(folder: Path) -> str:
    return fingerprint(_timeless(read_checkpoint(folder)))


def _content(path: Path) -> Any:
    if path.name.endswith(OF_THE_MOMENT):
        return None
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        return [_timeless(row) for row in csv.DictReader(path.open())]
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _timeless(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _timeless(value) for key, value in tree.items() if "second" not in str(key)}
    return [_timeless(value) for value in tree] if isinstance(tree, list) else tree
