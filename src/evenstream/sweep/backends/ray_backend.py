"""Runs on a Ray cluster: each worker is an actor, a process on one of its machines.

All machines need the same version of evenstream, the data, and the store's folder under the same
path (a shared file system); the plugins that EVENSTREAM_PLUGINS names here, too. Actors are used as
the processes of `run/workers.py` are.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from evenstream.errors import InputError, WorkerWarning
from evenstream.interruption import StopFlag
from evenstream.plugins import VARIABLE, requested
from evenstream.run.announcing import format_warning
from evenstream.run.many import Job, Work
from evenstream.run.metrics_file import Metrics
from evenstream.run.workers import PATIENCE, Answer, attempt, how_many, keep_busy
from evenstream.sweep.backends.backend import Backend
from evenstream.version import __version__

ANSWER_SECONDS = 10.0
"""A cluster that is there answers sooner."""

try:
    import ray
    from ray.exceptions import RayActorError, RayError
except ImportError:
    raise InputError("Ray is not installed; run pip install 'evenstream[ray]'") from None


@contextmanager
def on_ray(jobs: int, threads: int, gpus: int, address: str | None) -> Iterator[Backend]:
    """A backend on the cluster at `address`; None is the one of this machine, or a new one.

    Each run gets `threads` cores and, if it needs one, a GPU.
    """
    ours = not ray.is_initialized()
    if ours:
        connect(address)
    try:
        _check_version()
        there = ray.cluster_resources()
        most = int(there.get("GPU" if gpus else "CPU", 1))
        at_once = how_many(jobs, gpus or threads, most)
        needs = {"num_cpus": threads, "num_gpus": gpus}
        yield Backend(
            at_once,
            lambda waiting, work, stop: keep_busy(waiting, _Actors(work, needs), at_once, stop),
        )
    finally:
        if ours:
            ray.shutdown()


def connect(address: str | None) -> None:
    """Join a cluster, or start one; Ray itself would wait for many minutes for one not there."""
    host, colon, port = (address or "").rpartition(":")
    try:
        if colon and "/" not in host:
            socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"no Ray cluster can be reached at {address or 'this machine'}: {error}; "
            "`ray start --head` starts one, and if it was started with a token (the default of "
            "newer versions), set RAY_AUTH_MODE=token here, too"
        ) from None


def _check_version() -> None:
    """Refuse a cluster that would compute with other code."""
    try:
        theirs = ray.get(ray.remote(num_cpus=0)(_version).remote())
    except RayError as error:
        raise InputError(f"the Ray cluster has no evenstream ({_cause(error)})") from None
    if theirs != __version__:
        raise InputError(
            f"the Ray cluster has evenstream {theirs}, this is {__version__}; "
            "install the same version on all machines"
        )


def _version() -> str:
    return __version__


def _cause(error: RayError) -> str:
    """The last line of what Ray says, which is a whole traceback."""
    return str(error).strip().splitlines()[-1]


class _Serving:
    """The remote end: runs a job in one thread and hears of a stop in another."""

    def __init__(self, work: Callable[[Any, StopFlag], Any], plugins: Sequence[str]) -> None:
        warnings.formatwarning = format_warning
        os.environ[VARIABLE] = ",".join(plugins)
        self._work, self._stop = work, threading.Event()

    def up(self) -> None:
        """Answered once the process is there."""

    def do(self, job: Any) -> Answer[Any]:
        return attempt(self._work, job, self._stop)

    def stop(self) -> None:
        self._stop.set()


class _Actor:
    """The near end of a worker."""

    job: Job

    def __init__(self, actor: Any) -> None:
        self.actor, self._up, self._asked = actor, actor.up.remote(), False
        self.answer: Any = None

    def give(self, job: Job) -> None:
        self.job = job
        self.answer = self.actor.do.remote(job)

    def ask_to_stop(self) -> None:
        if self._asked:
            return
        self._asked = True
        if ray.wait([self._up], timeout=0)[0]:
            self.actor.stop.remote()
        else:  # still waiting for a machine that has room
            ray.kill(self.actor)

    def take(self) -> Answer[Metrics] | None:
        try:
            answer: Answer[Metrics] = ray.get(self.answer)
        except RayActorError as error:
            if error.actor_init_failed:
                warnings.warn(
                    f"Ray: a worker could not start ({_cause(error)})", WorkerWarning, stacklevel=2
                )
            return None
        except RayError as error:
            return Answer(error=f"Ray: {error}")
        return answer


class _Actors:
    """Workers that are actors of the cluster."""

    def __init__(self, work: Work, needs: dict[str, int]) -> None:
        self._work = work
        self._remote = ray.remote(**needs, max_concurrency=2)(_Serving)

    def hire(self) -> _Actor:
        return _Actor(self._remote.remote(self._work, requested()))

    def ready(self, busy: Sequence[_Actor], timeout: float) -> list[_Actor]:
        done, _ = ray.wait([worker.answer for worker in busy], timeout=timeout)
        return [worker for worker in busy if worker.answer in done]

    def dismiss(self, workers: Sequence[_Actor]) -> None:
        for worker in workers:
            with suppress(RayError):
                worker.ask_to_stop()
        if workers:
            ray.wait([w.answer for w in workers], num_returns=len(workers), timeout=PATIENCE)
        for worker in workers:
            ray.kill(worker.actor)
