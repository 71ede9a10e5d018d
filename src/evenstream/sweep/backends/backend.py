"""What every backend offers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from evenstream.interruption import StopFlag
from evenstream.run.many import Ending, Job, Work


@dataclass(frozen=True)
class Backend:
    """Makes runs; results do not depend on which one does."""

    at_once: int
    """How many runs at the same time."""
    work_off: Callable[[deque[Job], Work, StopFlag], Ending]
    """As `run.workers.work_off`."""
