"""An arriving batch: the steps made with it, and what goes to the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from evenstream.core.memory import Placement
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Picks, Step, StepResult
from evenstream.methods import Method
from evenstream.options import StepRows


class Arrival:
    """The steps of one arriving batch, in order.

    Attributes:
        steps: one, or as many as the method or the option `steps` requires; parts of a batch have
            at least one row.
        whole: a step with all rows of the batch, for storing them.
    """

    def __init__(
        self,
        learner: LearnerState,
        retrieval: Picks,
        incoming: Rows,
        known: int,
        own_steps: tuple[int, StepRows] | None,
    ) -> None:
        count, how = own_steps or (learner.options.steps, learner.options.step_rows)
        self._micro = how == "micro"
        rows = _parts(incoming, count) if self._micro else _copies(incoming, count)
        cut = self._micro and len(rows) > 1
        self.steps = [
            Step(learner, retrieval, each, known, (index, len(rows)) if cut else (0, 1))
            for index, each in enumerate(rows)
        ]
        for step in self.steps[1:]:
            step.again = not self._micro
        self.whole = Step(learner, retrieval, incoming, known) if cut else self.steps[-1]

    def mark_as_learned_before(self) -> None:
        """All its rows were learned before: in an earlier epoch, say."""
        for step in self.steps:
            step.again = True

    def set_placed(self, placed: Placement) -> None:
        """Tell the steps where the rows went."""
        for step in (self.whole, *self.steps):
            step.placed = placed

    def stored_rows(self, method: Method) -> Tensor | None:
        """Which rows of the batch the method offers to the memory; None means all."""
        if method.memory_first or self.whole is self.steps[-1]:
            return method.stored_rows(self.whole)
        found, first, all_rows = [], 0, True
        for step in self.steps:
            chosen = method.stored_rows(step)
            every = torch.arange(len(step.incoming), device=step.incoming.y.device)
            found.append(first + (every if chosen is None else chosen))
            first, all_rows = first + len(step.incoming), all_rows and chosen is None
        return None if all_rows else torch.cat(found)

    def remembered(self) -> dict[str, Tensor]:
        """The method's own fields for the rows: from all parts, or from the last step."""
        if self.whole is self.steps[-1]:
            return self.whole.remembered
        own = [step.remembered for step in self.steps]
        names = [name for name in own[0] if all(name in each for each in own)]
        return {name: torch.cat([each[name] for each in own]) for name in names}

    def result(self, number: int, made: Sequence[StepResult]) -> StepResult:
        """The combined result: mean loss, and accuracy on each row when it was new."""
        if len(made) == 1:
            return replace(made[0], step=number)
        losses = [each.loss for each in made if each.loss is not None]
        accuracy = made[0].accuracy
        if self._micro and accuracy is not None:
            sizes = [len(step.incoming) for step in self.steps]
            right = sum(n * (one.accuracy or 0.0) for n, one in zip(sizes, made, strict=True))
            accuracy = right / sum(sizes)
        return StepResult(
            step=number,
            loss=sum(losses) / len(losses) if losses else None,
            accuracy=accuracy,
            rows=sum(each.rows for each in made),
            single_class=all(each.single_class for each in made),
        )


def _parts(rows: Rows, count: int) -> list[Rows]:
    """Divide the rows into non-empty parts that differ by at most one row."""
    if count == 1 or len(rows) < 2:
        return [rows]
    every = torch.arange(len(rows), device=rows.y.device)
    return [rows.take(part) for part in torch.tensor_split(every, min(count, len(rows)))]


def _copies(rows: Rows, count: int) -> list[Rows]:
    """The same rows several times, each with its own view."""
    return [replace(rows) for _ in range(count)]
