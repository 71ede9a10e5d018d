"""The position and measurements of a run: the part of a checkpoint besides the learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evenstream.entries import check_fields
from evenstream.metrics import Prequential

FIRST_SKIPPED = 20
"""Maximum number of unreadable samples to name."""


@dataclass
class Skipped:
    """Unreadable samples: how many, and the first of them by name and cause."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Skipped:
        """Create from saved fields."""
        skipped = cls(**state)
        check_fields(skipped)
        return skipped

    def add(self, samples: Sequence[str]) -> None:
        """Count some more."""
        self.count += len(samples)
        self.first += samples[: FIRST_SKIPPED - len(self.first)]


@dataclass
class Position:
    """The position of a run, and its measurements so far."""

    task: int = 0
    epoch: int = 0
    batch: int = 0
    held_out: list[int] = field(default_factory=list)
    """Samples of the current task that the method holds out from training."""
    matrix: list[list[float | None]] = field(default_factory=list)
    """Accuracy on each task after each task."""
    balanced_over_tasks: list[float | None] = field(default_factory=list)
    """After each task, the mean over tasks of their class-balanced accuracy."""
    balanced_over_classes: list[float | None] = field(default_factory=list)
    """After each task, the mean recall over all classes tested."""
    final: dict[str, Any] = field(default_factory=dict)
    """What is measured once, after the last task."""
    online: list[float | None] = field(default_factory=list)
    """Online accuracy, one value every `eval_every` steps."""
    passes: float | None = None
    """Image passes of the training; None if part of it was not counted."""
    passes_aside: float | None = None
    """Image passes that measured the prequential accuracy."""
    cpu_seconds: float | None = None
    """CPU time of the training, without that measuring."""
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    seconds_after_task: list[float] = field(default_factory=list)
    samples: int = 0
    single_class_steps: int = 0
    prequential: Prequential = field(default_factory=Prequential)
    skipped_train: Skipped = field(default_factory=Skipped)
    skipped_test: Skipped = field(default_factory=Skipped)

    def count_cost(self) -> None:
        """Start counting passes and CPU time; runs of earlier versions continue without."""
        self.passes = self.passes_aside = self.cpu_seconds = 0.0

    def add_cost(self, passes: float, aside: float, cpu: float) -> None:
        """Count some more, if everything was counted from the start."""
        if self.passes is None or self.passes_aside is None or self.cpu_seconds is None:
            return
        self.passes += passes
        self.passes_aside += aside
        self.cpu_seconds += cpu

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            **vars(self),
            "prequential": self.prequential.state(),
            "skipped_train": asdict(self.skipped_train),
            "skipped_test": asdict(self.skipped_test),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Position:
        """Read back what `state` returned."""
        position = cls(**state)
        position.prequential = Prequential()
        position.prequential.load_state(state["prequential"])
        position.skipped_train = Skipped.from_state(state["skipped_train"])
        position.skipped_test = Skipped.from_state(state["skipped_test"])
        check_fields(position)
        return position
