"""The interface of trackers, which show the numbers of one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenstream.files import safe_name
from evenstream.run.config import RunConfig
from evenstream.run.sameness import run_key


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
    """What the tracker asked to remember when last following the run; empty at first."""

    @property
    def name(self) -> str:
        """A readable, unique name that can also be a folder name."""
        config = self.config
        parts = (safe_name(config.method), safe_name(config.stream), f"seed-{config.seed}")
        return "_".join((*parts, run_key(config)[:6]))

    @property
    def params(self) -> dict[str, bool | int | float | str]:
        """Its configuration for trackers: what is set, with lists as text."""
        return {
            name: value
            if isinstance(value, bool | int | float | str)
            else ",".join(map(str, value))
            for name, value in self.config.values().items()
        }


class Tracker(ABC):
    """Shows one run. Created with the run's first events; may be slow, may raise."""

    @abstractmethod
    def __init__(self, run: TrackedRun) -> None: ...

    def remember(self) -> Mapping[str, Any]:
        """What is needed to continue the run later."""
        return {}

    @abstractmethod
    def log(self, scalars: Sequence[Scalar]) -> None:
        """Show more points; they must be delivered when this returns."""

    @abstractmethod
    def finish(self, results: Sequence[Scalar]) -> None:
        """Show the results of the finished run."""

    @abstractmethod
    def close(self) -> None:
        """Close; the run may or may not be finished."""
