"""What a tracker is: where the numbers of one run are shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenstream.files import safe_name
from evenstream.run.config import RunConfig
from evenstream.run.identity import run_key


@dataclass(frozen=True)
class Scalar:
    """One point of a curve."""

    name: str
    step: int
    value: float


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers see it."""

    config: RunConfig
    folder: Path
    home: Path
    """The folder of the run, comparison or sweep that it belongs to."""
    known: Mapping[str, Any]
    """What the tracker asked to remember when the run was followed before; empty at first."""

    @property
    def name(self) -> str:
        """A name that can be read, is one of a kind, and can be that of a folder."""
        config = self.config
        parts = (safe_name(config.method), safe_name(config.stream), f"seed-{config.seed}")
        return "_".join((*parts, run_key(config)[:6]))

    @property
    def params(self) -> dict[str, bool | int | float | str]:
        """Its configuration, as trackers take it: what is set, lists as text."""
        return {
            name: value
            if isinstance(value, bool | int | float | str)
            else ",".join(map(str, value))
            for name, value in self.config.values().items()
        }


class Tracker(ABC):
    """Shows one run. Made when the run's first events are there; may be slow, may raise."""

    @abstractmethod
    def __init__(self, run: TrackedRun) -> None: ...

    def remember(self) -> Mapping[str, Any]:
        """What is needed to continue the run later."""
        return {}

    @abstractmethod
    def log(self, scalars: Sequence[Scalar]) -> None:
        """Show more points, and be done with it when this returns."""

    @abstractmethod
    def finish(self, results: Sequence[Scalar]) -> None:
        """Show what came of the run, which is finished."""

    @abstractmethod
    def close(self) -> None:
        """Let go; the run may be finished or not."""
