"""Worker processes that stop on request, survive each other's death, and never outlive the parent.

The standard library's process pool ends all workers when one is killed, and its shared flags can
hang them all if one is killed at the wrong moment. Here each worker has a pipe of its own: jobs go
in, answers come out, and a word on it during a job (or its end, when the parent dies) means stop.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, Generic, TypeVar

from evenstream.errors import EvenstreamError
from evenstream.run.interruption import Interrupted, StopFlag
from evenstream.run.progress import format_warning

J = TypeVar("J")
R = TypeVar("R")

STOP = None
"""The word that asks a worker to stop."""
PATIENCE = 5.0
"""Seconds that a worker has to end by itself once its pipe is closed."""


@dataclass(frozen=True)
class Answer(Generic[R]):
    """What came of a job: a result, an error, or neither if its worker was killed or stopped."""

    result: R | None = None
    error: str | None = None


def work_off(
    jobs: deque[J], work: Callable[[J, StopFlag], R], n_workers: int, stop: StopFlag
) -> Generator[tuple[J, Answer[R]], None, None]:
    """Do all jobs with up to `n_workers` processes; yields each as it ends.

    Jobs that are added meanwhile are done too. Once `stop` is set, no job is begun, and those
    under way are asked to stop.
    """
    idle: list[_Worker[J, R]] = []
    busy: list[_Worker[J, R]] = []
    try:
        while True:
            if stop.is_set():
                for worker in busy:
                    worker.ask_to_stop()
            else:
                while jobs and len(busy) < n_workers:
                    worker = idle.pop() if idle else _Worker(work)
                    busy.append(worker)
                    worker.give(jobs.popleft())
            if not busy:
                return
            for pipe in wait([worker.pipe for worker in busy], timeout=0.2):
                worker = next(worker for worker in busy if worker.pipe is pipe)
                busy.remove(worker)
                job, answer = worker.take()
                if answer is None:
                    worker.close()
                else:
                    idle.append(worker)
                yield job, answer or Answer()
    finally:
        for worker in busy + idle:
            worker.pipe.close()
        for worker in busy + idle:
            worker.close()


class _Worker(Generic[J, R]):
    """The parent's end of a worker process."""

    def __init__(self, work: Callable[[J, StopFlag], R]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with _sigint_held():  # the child inherits that, so Ctrl-C cannot end it while it starts
            self.process.start()
        theirs.close()
        self._job: J
        self._asked = False

    def give(self, job: J) -> None:
        """Begin a job. If the worker has died, `take` will tell."""
        self._job = job
        with contextlib.suppress(OSError):
            self.pipe.send(job)

    def ask_to_stop(self) -> None:
        """Let the job save itself and end."""
        if not self._asked:
            self._asked = True
            with contextlib.suppress(OSError):
                self.pipe.send(STOP)

    def take(self) -> tuple[J, Answer[R] | None]:
        """The job and its answer; None if the worker has died."""
        try:
            return self._job, self.pipe.recv()
        except (EOFError, OSError):
            return self._job, None

    def close(self) -> None:
        """End the process: an idle one at once, a busy one after its step."""
        self.pipe.close()
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


class _Asked:
    """Set when the parent has sent a word or died, or when this process got SIGTERM."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._terminated = pipe, False
        signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True

    def is_set(self) -> bool:
        return self._terminated or self._pipe.poll()


def _serve(pipe: Connection, work: Callable[[Any, StopFlag], Any]) -> None:
    """The worker process: jobs from the pipe until it says stop or ends."""
    warnings.formatwarning = format_warning
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    with contextlib.suppress(EOFError, OSError):
        while (job := pipe.recv()) is not STOP:
            try:
                answer: Answer[Any] = Answer(result=work(job, _Asked(pipe)))
            except Interrupted:
                answer = Answer()
            except EvenstreamError as error:
                answer = Answer(error=str(error))
            except Exception as error:  # a bug in a method must not stop the others
                traceback.print_exc()
                answer = Answer(error=f"{type(error).__name__}: {error}")
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            pipe.send(answer)


@contextlib.contextmanager
def _sigint_held() -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
