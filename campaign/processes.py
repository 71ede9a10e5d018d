"""Commands in processes of their own: real ones, and forks of this one, which start instantly."""

from __future__ import annotations

import mmap
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 120.0
"""Seconds after which a command hangs."""
slowness = 1.0
"""How many times as long as that, and as all other limits, things may take on this machine."""
LOG = "log-"
"""How the names of logs begin."""
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}


class Failure(Exception):
    """A broken promise; the text says which one, and what was observed."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status (minus a signal's number if that was it) and its output."""

    words: list[str]
    status: int
    output: str

    def __str__(self) -> str:
        return f"{self.words} ended with {self.status}:\n{self.output[-3000:]}"

    def check(self, statuses: tuple[int, ...] = (0, 1, 2)) -> None:
        """Reject tracebacks, raw control characters, unexpected statuses and silent errors."""
        odd = [c for c in self.output if (ord(c) < 32 and c not in "\n\t\r") or 126 < ord(c) < 160]
        for problem, found in {
            "a traceback": "Traceback (most recent call last)" in self.output,
            f"not one of the statuses {statuses}": self.status not in statuses,
            f"raw control characters {odd}": bool(odd),
            "an error without a word": self.status > 0 and not self.output.strip(),
        }.items():
            if found:
                raise Failure(f"{problem}: {self}")


def fork(work: Callable[[], int], log: Path, *, leads: bool = False) -> int:
    """Do something in a copy of this process; `leads` makes it the head of a session."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid() if leads else os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out, out)):
            os.dup2(file, number)
        status = work()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def ends(process: int, seconds: float) -> bool:
    """Whether a child process ends within this time."""
    handle = os.pidfd_open(process)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def status_of(process: int) -> int:
    """The status of a child process that has ended or is about to."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Life:
    """A command at work in a folder, where its output is kept in a log."""

    def __init__(
        self,
        words: list[str],
        folder: Path,
        prepare: Callable[[], None] = lambda: None,
        *,
        real: bool = False,
        feed: bytes = b"",
    ) -> None:
        def live() -> int:
            os.chdir(folder)
            reading, writing = os.pipe()
            os.write(writing, feed)
            os.close(writing)
            os.dup2(reading, 0)
            prepare()
            if real:
                os.execv(sys.executable, [sys.executable, "-m", "evenstream", *words])
            from evenstream.cli.main import main

            return main(words)

        folder.mkdir(parents=True, exist_ok=True)
        self.words = words
        self._log = folder / f"{LOG}{len(list(folder.glob(f'{LOG}*')))}.txt"
        self._log.touch()  # a fork may be killed before it has one
        self.process = fork(live, self._log)

    def ends(self, seconds: float) -> bool:
        return ends(self.process, seconds)

    def hit(self, number: int, *, group: bool = False) -> None:
        """Send it a signal, or the whole group, as a terminal does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, number) if group else os.kill(self.process, number)

    def end(self, seconds: float = LONGEST) -> Ended:
        """Wait for it to end; failing to end is a failure."""
        hangs = not self.ends(seconds * slowness)
        if hangs:
            self.hit(signal.SIGKILL)
        status = status_of(self.process)
        ended = Ended(self.words, status, self._log.read_text(errors="replace"))
        if hangs:
            raise Failure(f"it hangs: {ended}")
        return ended


class Operations:
    """Counts a forked process's changes to files, and interrupts at one of them."""

    def __init__(self) -> None:
        self._count = mmap.mmap(-1, 8)  # both processes see it

    @property
    def count(self) -> int:
        return int.from_bytes(self._count[:8])

    def watch(self, at: int = 0, strike: Callable[[], None] = lambda: None) -> None:
        """Start counting in this process; call `strike` right before operation number `at`."""

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes or event in _CHANGES:
                self._count[:8] = (self.count + 1).to_bytes(8)
                if self.count == at:
                    strike()

        sys.addaudithook(hear)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def members(session: int) -> Iterator[int]:
    """The living processes of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            state, _, _, leader, *_ = stat.read_text().rpartition(")")[2].split()
            if state != "Z" and int(leader) == session:
                yield int(stat.parent.name)


def check_nothing_is_left(patience: float = 90.0) -> None:
    """Check that every process started by this one ends by itself."""
    give_up = time.monotonic() + patience * slowness
    while left := set(members(os.getsid(0))) - {os.getpid()}:
        if time.monotonic() > give_up:
            raise Failure(f"{len(left)} processes were left behind")
        time.sleep(0.05)


def end_session(session: int) -> None:
    """Kill all processes of a session."""
    for process in members(session):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
