"""Makes all runs of a sweep, or those that are not finished yet."""

from __future__ import annotations

import functools
import math
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evenstream.errors import EvenstreamError
from evenstream.files import exclusive
from evenstream.interruption import Interrupted, StopFlag, stop_on_signal
from evenstream.run.config import RunConfig
from evenstream.run.folder import CHECKPOINTS, finished_metrics
from evenstream.run.many import Ended, Job, make_all, warnings_named
from evenstream.run.metrics_file import Metrics
from evenstream.run.sameness import run_key
from evenstream.sweep.store import LOCK, Store, holds_its_run

if TYPE_CHECKING:
    from evenstream.sweep.backends import Backend


class Listener:
    """What a sweep tells how it goes; every call is optional to act on."""

    def start(self, done: Mapping[str, Metrics], waiting: Sequence[Job]) -> None:
        """The sweep begins; the runs that are `done` were finished before, by their keys.

        `waiting` shrinks as runs are begun, and grows when one is to be tried again.
        """

    def ended(self, run: Ended) -> None:
        """A run is finished or has failed."""


def work(
    configs: Sequence[RunConfig],
    store: Store,
    backend: Backend,
    *,
    retries: int = 1,
    keep: bool = False,
    listener: Listener,
) -> list[Ended]:
    """Make or finish every run; returns those that failed.

    A failed run is recorded in its folder, tried again `retries` times, and never takes the others
    down. A run whose process is killed goes on from its last checkpoint. Ctrl-C and SIGTERM let
    every running one save itself, then raise `Interrupted`. Checkpoints of finished runs are
    removed unless they are to be kept.
    """
    runs = {run_key(config): config for config in configs}
    found = {key: store.metrics(config) for key, config in runs.items()}
    done = {key: metrics for key, metrics in found.items() if metrics is not None}
    waiting = deque(
        (config, store.folder(config)) for key, config in runs.items() if key not in done
    )
    failed: list[Ended] = []
    with stop_on_signal() as signalled:
        listener.start(done, waiting)
        job = functools.partial(make_or_finish, keep=keep)
        for run in make_all(waiting, backend.work_off(waiting, job, signalled), retries):
            store.record(run)
            if run.error is not None and not run.again:
                failed.append(run)
            listener.ended(run)
    if waiting:
        raise Interrupted("stopped and saved; the same command continues from here")
    return failed


def make_or_finish(job: Job, stop: StopFlag, *, keep: bool = False) -> Metrics:
    """One run, in a worker process; waits for another sweep that is at work on it."""
    from evenstream.checkpoint import has_checkpoint
    from evenstream.run.runner import resume_run

    config, folder = job
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOCK).touch()
    try:
        lock = exclusive(folder / LOCK, patience=math.inf, stop=stop)
        with lock, warnings_named(config):
            if finished_metrics(folder) is None and not has_checkpoint(folder / CHECKPOINTS):
                config.write(folder)
            elif not holds_its_run(folder):
                raise EvenstreamError(
                    f"{folder / config.FILE} was changed or removed by hand; remove the folder to "
                    "make the run again"
                )
            metrics = resume_run(folder, stop=stop)
            if not keep:
                shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
            return metrics
    except EvenstreamError:
        raise
    except Exception as error:  # so that no worker prints over the table; the cause is kept
        raise EvenstreamError(f"{type(error).__name__}: {error}") from error
