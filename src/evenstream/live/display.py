"""What `evenstream learn` prints while it learns, and at the end."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from evenstream.core.step import StepResult
from evenstream.errors import DataError, count
from evenstream.live.tally import Place, Tally
from evenstream.printable import say
from evenstream.showing import PLAIN_EVERY_SECONDS

if TYPE_CHECKING:
    from rich.console import Console


class Display(contextlib.ExitStack):
    """A line that updates in place on a terminal; elsewhere a new line now and then."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def __enter__(self) -> Self:
        console = self._console
        self._status = console.status("waiting for data") if console.is_terminal else None
        if self._status is not None:
            self.enter_context(self._status)
        self._said = time.monotonic()
        return super().__enter__()

    def __call__(self, result: StepResult, tally: Tally) -> None:
        """Show a step."""
        if self._status is not None:
            self._status.update(status_line(result, tally))
        elif time.monotonic() - self._said > PLAIN_EVERY_SECONDS:
            self._said = time.monotonic()
            say(status_line(result, tally))


def status_line(result: StepResult, tally: Tally) -> str:
    """A learner's progress in one line."""
    parts = [
        f"step {result.step:,}",
        count(tally.samples, "row"),
        accuracy_text(tally.accuracy.overall, tally.accuracy.recent),
        "" if result.loss is None else f"loss {result.loss:.3f}",
        f"{tally.refused:,} batches refused" if tally.refused else "",
    ]
    return "  ".join(filter(None, parts))


def accuracy_text(overall: float | None, recent: float | None) -> str:
    """The accuracy before learning, overall and recently."""
    if overall is None or recent is None:
        return ""
    return f"accuracy {overall:.1f} % so far, {recent:.1f} % of late"


def summary(metrics: Mapping[str, Any], name: str, before: Place, folder: Path) -> str:
    """The outcome of following a stream; `before` is what had already been learned."""
    after = Place.from_state(metrics["streams"][name])
    new = after.samples - before.samples
    skipped = after.notes.get("skipped", 0) - before.notes.get("skipped", 0)
    if not after.samples and skipped:
        raise DataError(f"nothing was learned from {name}: all of its {skipped:,} rows are bad")
    if not after.samples:
        raise DataError(
            f"{name} has no rows to learn from (a line of a CSV file counts when its newline is "
            "written)"
        )
    line = "; its last line has no newline yet and will be read next time"
    waits = line if after.notes.get("unfinished") else ""
    if not new and skipped:
        return (
            f"nothing new in {name} but rows that were skipped ({skipped:,}); its other "
            f"{before.samples:,} rows were learned before{waits}"
        )
    if not new:
        return (
            f"nothing new in {name}: its {before.samples:,} rows were learned before "
            f"(--again learns them once more){waits}"
        )
    accuracy = accuracy_text(metrics["prequential_accuracy"], metrics["recent_accuracy"])
    left_out = f", {count(skipped, 'row')} skipped" if skipped else ""
    classes = f"{count(len(metrics['labels']), 'class')}{waits}"
    return (
        f"learned {count(new, 'row')} of {name}{left_out}; {accuracy}; {classes}\n"
        f"saved in {folder}; `evenstream predict {shlex.quote(str(folder))} FILE` uses it"
    )
