"""Worker processes that stop on request, survive each other's death, and never outlive the parent.

The standard library's process pool ends all workers when one is killed, and its shared flags can
hang them all if one is killed at the wrong moment. Here each worker has its own pipe: jobs go in,
answers come out, and a message during a job (or a closed pipe, when the parent dies) means stop.

On Linux workers are forked from one process that has loaded PyTorch and does nothing else, so
only that one takes seconds to start; elsewhere each is started from scratch.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from evenstream.errors import EvenstreamError, InputError, memory_trouble
from evenstream.interruption import Interrupted, StopFlag
from evenstream.run.announcing import format_warning

J = TypeVar("J")
R = TypeVar("R")

OPEN_FILES, OPEN_FILES_EACH = 16, 3
"""Open files of a process with workers, and additional ones per worker."""
STOP = None
"""The message that asks a worker to stop."""
PATIENCE = 5.0
"""Seconds that a worker process has to exit once its pipe is closed."""
PRELOADED = "evenstream.run.runner"
"""What is loaded before workers are forked; it must not start a thread."""


@dataclass(frozen=True)
class Answer(Generic[R]):
    """The outcome of a job: a result, an error, or neither if its worker was killed or stopped."""

    result: R | None = None
    error: str | None = None
    traceback: str | None = None
    """Where the error was raised."""


def how_many(asked: int, threads: int, cores: int | None = None) -> int:
    """Number of runs at the same time; 0 means as many as fit on the cores."""
    if asked < 0:
        raise InputError(f"--jobs must be 0 (one for each core) or more, got {asked}")
    if cores is not None:  # for other machines
        return asked or max(1, cores // threads)
    wanted, most = asked or max(1, usable_cores() // threads), _most_by_open_files()
    least = asked or 1
    if most < least:
        raise InputError(
            f"{least} runs at the same time need {OPEN_FILES + OPEN_FILES_EACH * least} "
            "open files, and the system lets this process have fewer; raise its limit (`ulimit -n`)"
            + (f" or ask for fewer --jobs, {most} at most" if most > 0 else "")
        )
    return int(min(wanted, most))


def _most_by_open_files() -> float:
    """Number of worker processes that the limit on open files allows, once it is raised."""
    if sys.platform == "win32":
        return math.inf
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS has a different, lower limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return math.inf
    return (soft - OPEN_FILES) // OPEN_FILES_EACH


def usable_cores() -> int:
    """The cores that this process may use, possibly restricted by a container or `taskset`."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def warm_up() -> None:
    """Start loading what workers need, while other work is done before the first job."""
    if _context().get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        with _sigint_held():
            ensure_running()


class Worker(Protocol[J, R]):
    """A process, here or on another machine, that does one job at a time."""

    job: J
    """The job given last."""

    def give(self, job: J) -> None:
        """Start a job. If the worker has died, `take` reports it."""
        ...

    def ask_to_stop(self) -> None:
        """Let the job save itself and end."""
        ...

    def take(self) -> Answer[R] | None:
        """The answer, once it is ready; None if the worker has died."""
        ...


W = TypeVar("W", bound=Worker[Any, Any])


class Crew(Protocol[W]):
    """Where workers come from and go to."""

    def hire(self) -> W:
        """A new worker."""
        ...

    def ready(self, busy: Sequence[W], timeout: float) -> list[W]:
        """Workers that have an answer or have died, after at most `timeout` seconds."""
        ...

    def dismiss(self, workers: Sequence[W]) -> None:
        """Stop workers: idle ones at once, busy ones after their step."""
        ...


def work_off(
    jobs: deque[J], work: Callable[[J, StopFlag], R], n_workers: int, stop: StopFlag
) -> Generator[tuple[J, Answer[R]], None, None]:
    """Do all jobs with up to `n_workers` processes of this machine; see `keep_busy`."""
    return keep_busy(jobs, _Processes(work), n_workers, stop)


def keep_busy(
    jobs: deque[J], crew: Crew[W], n_workers: int, stop: StopFlag
) -> Generator[tuple[J, Answer[Any]], None, None]:
    """Do all jobs with up to `n_workers` workers; yields each as it ends.

    Jobs added in the meantime are done too. Once `stop` is set, no job is started, and running ones
    are asked to stop.
    """
    idle: list[W] = []
    busy: list[W] = []
    try:
        while True:
            if stop.is_set():
                for worker in busy:
                    worker.ask_to_stop()
            else:
                while jobs and len(busy) < n_workers:
                    worker = idle.pop() if idle else crew.hire()
                    busy.append(worker)
                    worker.give(jobs.popleft())
            if not busy:
                return
            for worker in crew.ready(busy, timeout=0.2):
                busy.remove(worker)
                answer = worker.take()
                if answer is None:
                    crew.dismiss([worker])
                else:
                    idle.append(worker)
                yield worker.job, answer or Answer()
    finally:
        crew.dismiss(busy + idle)


def attempt(work: Callable[[J, StopFlag], R], job: J, stop: StopFlag) -> Answer[R]:
    """Do a job in a worker process; whatever it raises becomes part of the answer."""
    try:
        return Answer(result=work(job, stop))
    except Interrupted:
        return Answer()
    except EvenstreamError as error:
        return Answer(error=str(error), traceback=traceback.format_exc())
    except Exception as error:  # a bug in a method must not stop the others
        told = memory_trouble(error)
        if not told:
            traceback.print_exc()
            told = f"{type(error).__name__}: {error}"
        return Answer(error=told, traceback=traceback.format_exc())


class _Processes(Generic[J, R]):
    """Workers that are processes of this machine."""

    def __init__(self, work: Callable[[J, StopFlag], R]) -> None:
        self._work = work

    def hire(self) -> _Process[J, R]:
        for pause in (0.0, 0.1, 1.0):
            time.sleep(pause)
            try:
                return _Process(self._work)
            except (EOFError, ConnectionError):  # the fork server was killed
                continue
        raise EvenstreamError(
            "no worker process can be started: each is killed while it starts; check whether "
            "there is memory left"
        )

    def ready(self, busy: Sequence[_Process[J, R]], timeout: float) -> list[_Process[J, R]]:
        pipes = wait([worker.pipe for worker in busy], timeout)
        return [worker for worker in busy if worker.pipe in pipes]

    def dismiss(self, workers: Sequence[_Process[J, R]]) -> None:
        for worker in workers:
            worker.pipe.close()
        for worker in workers:
            worker.end()


class _Process(Generic[J, R]):
    """The parent's end of a worker process."""

    job: J

    def __init__(self, work: Callable[[J, StopFlag], R]) -> None:
        context = _context()
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, work, dict(os.environ))
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        with _sigint_held():  # inherited by the child, so that Ctrl-C cannot end it while it starts
            self.process.start()
        theirs.close()
        self._asked = False

    def give(self, job: J) -> None:
        self.job = job
        with contextlib.suppress(OSError):
            self.pipe.send(job)

    def ask_to_stop(self) -> None:
        if not self._asked:
            self._asked = True
            with contextlib.suppress(OSError):
                self.pipe.send(STOP)

    def take(self) -> Answer[R] | None:
        try:
            answer: Answer[R] = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return answer

    def end(self) -> None:
        """Wait for the process to exit, now that its pipe is closed."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _context() -> SpawnContext | ForkServerContext:
    """How worker processes are started."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", PRELOADED])
    return context


class _Asked:
    """Set when the parent has sent a message or died, or when this process got SIGTERM."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._terminated = pipe, False
        signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True

    def is_set(self) -> bool:
        return self._terminated or self._pipe.poll()


def _serve(
    pipe: Connection, work: Callable[[Any, StopFlag], Any], environment: dict[str, str]
) -> None:
    """The worker process: jobs from the pipe until it says stop or ends."""
    os.environ.clear()  # a forked worker has the one from when the first was started
    os.environ.update(environment)
    warnings.formatwarning = format_warning
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    with contextlib.suppress(EOFError, OSError):
        while (job := pipe.recv()) is not STOP:
            answer = attempt(work, job, _Asked(pipe))
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            pipe.send(answer)


@contextlib.contextmanager
def _sigint_held() -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting it would let SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
