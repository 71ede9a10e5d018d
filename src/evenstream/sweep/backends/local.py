"""Runs in processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evenstream.run.workers import how_many, work_off
from evenstream.sweep.backends.backend import Backend


@contextmanager
def on_this_machine(jobs: int, threads: int) -> Iterator[Backend]:
    """A backend with a process for each run."""
    at_once = how_many(jobs, threads)
    yield Backend(at_once, lambda waiting, work, stop: work_off(waiting, work, at_once, stop))
