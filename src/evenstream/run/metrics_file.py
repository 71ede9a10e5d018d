"""What `metrics.json` says of a run, with types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenstream.errors import EvenstreamError
from evenstream.measures import METRICS as METRICS
from evenstream.metrics import as_matrix

METRICS_FORMAT = 1
"""Its version."""


def number(value: object) -> float | None:
    """A finite number as a float, anything else as None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class Online:
    """The accuracy while learning, and how it was measured."""

    every: int = 1
    accuracy: Sequence[object] = ()
    statement: str = ""


@dataclass(frozen=True)
class Metrics:
    """What a run has measured: every entry of its file by name, the usual ones with their types.

    Entries that a run of an earlier version lacks, or that are damaged, are None or empty;
    `problem` says whether what is needed to show a run is there.
    """

    entries: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.entries[name]

    def number(self, name: str) -> float | None:
        """An entry that is one finite number."""
        return number(self.entries.get(name))

    def whole(self, name: str) -> int | None:
        """An entry that is a whole number."""
        found = self.entries.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def text(self, name: str) -> str:
        """An entry that is text; empty if it is not."""
        found = self.entries.get(name)
        return found if isinstance(found, str) else ""

    def values(self, name: str) -> list[Any]:
        """An entry that is a list, whose values may be anything; empty if it is not."""
        found = self.entries.get(name)
        return found if isinstance(found, list) else []

    @property
    def method(self) -> str:
        """The method."""
        return self.text("method")

    @property
    def stream(self) -> str:
        """The stream."""
        return self.text("stream")

    @property
    def seed(self) -> int | None:
        """The seed."""
        return self.whole("seed")

    @property
    def finished(self) -> bool:
        """Whether these are the final results."""
        return self.text("status") == "finished"

    @property
    def tasks(self) -> list[list[str]]:
        """The names of each task's classes."""
        return [
            [str(name) for name in task] if isinstance(task, list) else [str(task)]
            for task in self.values("tasks")
        ]

    @property
    def tasks_done(self) -> int:
        """How many tasks have been measured."""
        try:
            return len(as_matrix(self.values("accuracy_matrix")))
        except (EvenstreamError, TypeError, ValueError):
            return 0

    @property
    def classes(self) -> list[str]:
        """The names of all classes; none in runs of older versions."""
        return [str(name) for name in self.values("classes")]

    @property
    def online(self) -> Online:
        """The accuracies while learning; none if they were not measured."""
        found = self.entries.get("online")
        if not isinstance(found, dict) or not isinstance(found.get("accuracy"), list):
            return Online()
        every = found.get("every")
        statement = str(found.get("statement", ""))
        return Online(every, found["accuracy"], statement) if isinstance(every, int) else Online()

    @property
    def seconds(self) -> float | None:
        """How long the run took, evaluations included; None if neither is known."""
        parts = [self.number(name) for name in ("train_seconds", "eval_seconds")]
        known = [part for part in parts if part is not None]
        return float(sum(known)) if known else None

    def skipped(self, part: str) -> tuple[int, list[str]]:
        """How many samples of a part (train, test) could not be read, and the first of them."""
        found = self.entries.get(f"skipped_{part}")
        if not isinstance(found, dict) or not isinstance(found.get("count"), int):
            return 0, []
        return found["count"], [str(name) for name in found.get("first", [])]

    @property
    def complete(self) -> bool:
        """Whether all that commands say of a finished run is there, with the right types."""
        return all(
            name in _NEW if name not in self.entries else isinstance(self.entries[name], kinds)
            for name, kinds in _KINDS.items()
        )

    @property
    def problem(self) -> str | None:
        """Why a report cannot show the run; None if it can, or if the run is not over."""
        written = self.entries.get("format")
        if written != METRICS_FORMAT:
            return f"{METRICS} has format {written!r}; this version reads {METRICS_FORMAT}"
        if not self.finished:
            return None
        for name, kind in _NEEDED.items():
            if not isinstance(self.entries.get(name), kind):
                return f"{METRICS} says finished but has no usable {name}"
        if self.number("A_T") is None:
            return f"{METRICS} says finished but A_T is not a finite number"
        try:
            matrix = as_matrix(self["accuracy_matrix"])
        except (EvenstreamError, TypeError, ValueError) as error:
            return f"{METRICS} has no usable accuracy_matrix ({error})"
        if matrix.shape != (len(self["tasks"]),) * 2:
            return f"{METRICS} says finished but its accuracy_matrix does not cover all tasks"
        return None


_NUMBER, _NONE = (int, float), (type(None),)
_NEEDED: dict[str, tuple[type, ...]] = {
    "method": (str,), "stream": (str,), "seed": (int,), "tasks": (list,),
    "accuracy_matrix": (list,), "A_T": _NUMBER,
}  # fmt: skip
"""What reports need of a finished run."""
_KINDS: dict[str, tuple[type, ...]] = {
    "status": (str,), "method": (str,), "seed": (int,),
    "A_T": _NUMBER + _NONE, "F_T": _NUMBER + _NONE, "A_AUC": _NUMBER + _NONE,
    "online": (dict, *_NONE), "steps": (int,), "train_seconds": _NUMBER, "eval_seconds": _NUMBER,
    "samples_per_second": _NUMBER + _NONE, "skipped_train": (dict, *_NONE),
    "skipped_test": (dict, *_NONE), "dtype": (str,),
}  # fmt: skip
"""What commands say of a finished run."""
_NEW = {"A_AUC", "online", "skipped_train", "skipped_test"}
"""What runs of earlier versions do not have."""
