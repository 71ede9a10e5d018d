"""Many finished runs in one file of text: a line each, with settings, metrics and environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import tomli_w

from evenstream.errors import DataError
from evenstream.files import read_object, write_atomically
from evenstream.run.config import CONFIG, RunConfig, read_toml
from evenstream.run.environment import ENVIRONMENT
from evenstream.run.metrics_file import METRICS

PACKED = ".runs.jsonl"
"""How the names of such files end."""
_PARTS: dict[str, tuple[type, ...]] = {
    "name": (str,), "config": (dict,), "metrics": (dict,), "env": (dict, type(None)),
}  # fmt: skip


@dataclass(frozen=True)
class PackedRun:
    """What is worth keeping of a run: all but its events and checkpoints."""

    name: str
    """Its folder, as seen from the one that was packed."""
    config: dict[str, Any]
    metrics: dict[str, Any]
    env: dict[str, Any] | None = None

    @classmethod
    def of_folder(cls, folder: Path, name: str) -> PackedRun:
        """Read a run's folder; a `DataError` says why it is not fit for keeping."""
        config = read_toml(folder / CONFIG)
        RunConfig.from_values(folder / CONFIG, config)
        try:
            env = read_object(folder / ENVIRONMENT) if (folder / ENVIRONMENT).exists() else None
            return cls(name, config, read_object(folder / METRICS), env)
        except DataError as error:
            raise DataError(f"{folder}: {error}") from None

    @property
    def settings(self) -> str:
        """The text of `config.toml`."""
        return tomli_w.dumps(self.config)

    def unpack(self, into: Path) -> Path:
        """Write the run's files as they were; returns its folder."""
        folder = into / self.name
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / CONFIG, self.settings)
        for file, content in ((METRICS, self.metrics), (ENVIRONMENT, self.env)):
            if content is not None:
                write_atomically(folder / file, json.dumps(content, indent=1))
        return folder


def is_packed(path: Path) -> bool:
    """Whether a file holds packed runs, by its name."""
    return path.name.endswith(PACKED) and path.is_file()


def write_packed(file: Path, runs: Iterable[PackedRun]) -> None:
    """Write runs in the order of their names, so that two versions of a file can be compared."""
    ordered = sorted(runs, key=lambda run: PurePosixPath(run.name).parts)
    parts = ({k: v for k, v in vars(run).items() if v is not None} for run in ordered)
    lines = (json.dumps(each, separators=(",", ":")) + "\n" for each in parts)
    write_atomically(file, "".join(lines))


def _refuse(problem: str) -> None:
    raise DataError(problem)


def read_packed(file: Path, damaged: Callable[[str], object] = _refuse) -> Iterator[PackedRun]:
    """The runs of a file.

    Args:
        file: one that `write_packed` wrote.
        damaged: told about each line that cannot be used; by default that is a `DataError`.
    """
    names: set[str] = set()
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            run = _parse(line)
            if run.name in names:
                raise ValueError(f"a second run called {run.name}")
        except (ValueError, RecursionError) as error:
            damaged(f"{file}, line {number}: no packed run ({error})")
            continue
        names.add(run.name)
        yield run


def _parse(line: bytes) -> PackedRun:
    """Raises ValueError."""
    found = json.loads(line.decode("utf-8"))
    if not isinstance(found, dict) or found.keys() - _PARTS:
        raise ValueError(f"it is not an object of {', '.join(_PARTS)}")
    for part, kinds in _PARTS.items():
        if not isinstance(found.get(part), kinds):
            raise ValueError(f"it has no usable {part}")
    _check_settings(found["config"])
    found["name"].encode()  # half of a surrogate pair is a ValueError
    path = PurePosixPath(found["name"])
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in found["name"]:
        raise ValueError(f"{found['name']!r} is not the name of a folder inside another")
    return PackedRun(**found)


def _check_settings(tree: Any) -> None:
    """Refuse null, which `config.toml` could not say; raises ValueError."""
    if tree is None:
        raise ValueError("its config holds null")
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        _check_settings(each)
