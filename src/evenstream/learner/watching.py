"""Notices a learner that learns nothing, and suggests what to try."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from evenstream.core.step import StepResult

BEGINNING, ENOUGH = 200, 300
"""Number of rows to wait, and of following rows by which something should be learned."""
QUIET = 100
"""Number of rows after a new class that do not count, since it is not yet known."""
STEPS = 5
"""Minimum number of steps for these rows, since one large batch says nothing."""
SURE = 3.0
"""Standard deviations above pure chance that count as having learned something."""

ADVICE = (
    "try Learner() without a method, model or learning rate, which normalises flat inputs and also "
    "tries closed-form methods; a tenth or three times the learning rate; inputs of another scale "
    "(the network normalised-mlp finds it itself); and check that labels belong to their rows"
)


@dataclass
class Mean:
    """A mean over rows."""

    rows: int = 0
    total: float = 0.0

    def add(self, value: float, rows: int) -> None:
        """Add the mean of further rows."""
        self.rows, self.total = self.rows + rows, self.total + value * rows

    @property
    def value(self) -> float:
        """The mean so far."""
        return self.total / max(self.rows, 1)


@dataclass
class Watch:
    """Watches the first rows of a learner, once; it changes nothing and is not saved."""

    rows: int = 0
    steps: int = 0
    classes: int = 0
    changed_at: int = 0
    """Number of rows that had arrived when the newest class appeared."""
    classes_at_first: int = 0
    accuracy: Mean = field(default_factory=Mean)
    chance: Mean = field(default_factory=Mean)
    first_loss: Mean = field(default_factory=Mean)
    loss: Mean = field(default_factory=Mean)
    done: bool = False

    def trouble(self, result: StepResult, rows: int, classes: int) -> str | None:
        """What is wrong after a step with this many arriving rows, if clear by now."""
        if classes != self.classes:
            self.classes, self.changed_at = classes, self.rows + rows
        early = self.rows < BEGINNING
        new = self.rows < self.changed_at + QUIET
        self.rows += rows
        if self.done or classes < 2 or (new and not early):
            return None
        if early:
            self.classes_at_first = classes
        else:
            self.steps += 1
        if result.loss is not None:
            (self.first_loss if early else self.loss).add(result.loss, rows)
        if result.accuracy is not None and not early:
            self.accuracy.add(result.accuracy, rows)
            self.chance.add(1 / classes, rows)
        judged = self.accuracy if self.accuracy.rows else self.loss
        self.done = self.steps >= STEPS and judged.rows >= ENOUGH
        return self._verdict(classes) if self.done else None

    def _verdict(self, classes: int) -> str | None:
        right, chance = self.accuracy, self.chance.value
        if right.rows:
            luck = SURE * math.sqrt(chance * (1 - chance) / right.rows)
            if right.value > chance + luck:
                return None
            return (
                f"{right.value:.0%} of the last {right.rows} rows were predicted right before they "
                f"were learned, no more than chance ({chance:.0%})"
            )
        same = classes == self.classes_at_first and self.first_loss.rows and self.loss.rows
        if same and self.loss.value >= self.first_loss.value:
            return (
                f"after {self.rows} rows the loss is {self.loss.value:.3g}, and was "
                f"{self.first_loss.value:.3g} at first"
            )
        return None
