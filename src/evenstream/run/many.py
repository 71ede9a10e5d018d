"""Many runs: made, taken up again when their process dies, tried again when they fail."""

from __future__ import annotations

import logging
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenstream.errors import NotLearning
from evenstream.interruption import StopFlag
from evenstream.run.announcing import format_warning
from evenstream.run.config import RunConfig
from evenstream.run.metrics_file import Metrics
from evenstream.run.workers import Answer

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a run is taken up again after its process was killed from outside."""

Job = tuple[RunConfig, Path]
"""A run and the folder it lives in."""
Work = Callable[[Job, StopFlag], Metrics]
Ending = Generator[tuple[Job, Answer[Metrics]], None, None]
"""Jobs with their answers, as they end."""


@dataclass(frozen=True)
class Ended:
    """A run that is finished or has failed."""

    config: RunConfig
    folder: Path
    metrics: Metrics | None = None
    error: str | None = None
    traceback: str | None = None
    again: bool = False
    """Whether it will be tried again."""


def make_all(waiting: deque[Job], ending: Ending, retries: int) -> Iterator[Ended]:
    """Follow the runs that `ending` makes of those `waiting`; says what became of each.

    A run whose process is killed from outside goes on from its last checkpoint; one that fails is
    tried `retries` times more. Those still waiting in the end were stopped.
    """
    killed: Counter[Job] = Counter()
    failed: Counter[Job] = Counter()
    with closing(ending):
        for job, answer in ending:
            if answer.result is not None:
                yield Ended(*job, metrics=answer.result)
                continue
            if answer.error is None:
                killed[job] += 1
                again = killed[job] <= ATTEMPTS
                error = f"its process was killed {killed[job]} times"
            else:
                failed[job] += 1
                again = failed[job] <= retries
                error = answer.error
            if again:
                log.info("the run in %s is tried again: %s", job[1], error)
                waiting.append(job)
            if answer.error is not None or not again:
                yield Ended(*job, error=error, traceback=answer.traceback, again=again)


@contextmanager
def warnings_named(config: RunConfig) -> Iterator[None]:
    """Warnings name their run; one that learns nothing is not advised to try another method."""
    name, before = f"{config.method} on {config.stream}, seed {config.seed}", warnings.formatwarning

    def named(message: Warning | str, *where: Any, **line: Any) -> str:
        found = message.finding if isinstance(message, NotLearning) else message
        return format_warning(f"{name}: {found}")

    warnings.formatwarning = named
    try:
        yield
    finally:
        warnings.formatwarning = before
