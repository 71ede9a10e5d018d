"""The interface of backends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from evenstream.interruption import StopFlag
from evenstream.run.many import Ending, Job, Work


@dataclass(frozen=True)
class Backend:
    """Makes runs; results do not depend on the backend."""

    at_once: int
    """Number of runs at the same time."""
    work_off: Callable[[deque[Job], Work, StopFlag], Ending]
    """Like `run.workers.work_off`."""
