"""Makes attempts in parallel, each in a fork of this process, and reports on them."""

from __future__ import annotations

import io
import json
import os
import pkgutil
import re
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from campaign import processes
from campaign.processes import Failure, check_nothing_is_left, end_session, ends, fork, status_of

LONGEST = 900.0
"""Seconds after which an attempt hangs."""
_FAILURE = "failure.txt"


@dataclass
class Kind:
    """One kind of attempt and its results."""

    name: str
    attack: Callable[[int, Path], None]
    each: int
    """Attempts that one seed makes."""
    goal: int
    """Seeds to try."""
    begun: int = 0
    ended: int = 0
    seconds: float = 0.0
    failures: dict[int, str] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str, size: float) -> Kind:
        """The kind defined in a file of kinds/; `size` 1 is a complete campaign."""
        module = import_module(f"campaign.kinds.{name.replace('-', '_')}")
        goal = max(1, round(size * module.FULL / module.EACH))
        return cls(name, module.attack, module.EACH, goal)

    def __str__(self) -> str:
        return f"{self.name} {self.ended * self.each}/{self.goal * self.each}"


@dataclass(frozen=True)
class _Attempt:
    kind: Kind
    seed: int
    folder: Path
    process: int
    began: float


class Campaign:
    """Gives seeds to processes until every kind is complete or time is up."""

    def __init__(self, kinds: list[Kind], home: Path) -> None:
        self.kinds, self.home, self.console = kinds, home, Console()
        self._busy: list[_Attempt] = []

    def run(self, seed: int, minutes: float, jobs: int) -> None:
        """Make all attempts, with all kinds progressing at the same rate."""
        began = told = time.monotonic()
        try:
            while True:
                over = time.monotonic() > began + 60 * minutes
                while len(self._busy) < jobs and (kind := self._next(over)):
                    self.begin(kind, seed * 1_000_000 + kind.begun)
                if not self._busy:
                    return
                self.look_after(self._busy)
                if time.monotonic() > told + 15:
                    told = time.monotonic()
                    text = ", ".join(map(str, self.kinds))
                    self.console.print(f"{(told - began) / 60:.1f} min: {text}", style="dim")
        finally:
            for attempt in self._busy:
                end_session(attempt.process)

    def repeat(self, seed: int) -> None:
        """Repeat one attempt and keep its folder."""
        self.begin(self.kinds[0], seed)
        while self._busy:
            self.look_after(self._busy, keep=True)

    def _next(self, over: bool) -> Kind | None:
        """The kind that is furthest behind; each gets at least one seed, even if time is up."""
        left = [kind for kind in self.kinds if kind.begun < (1 if over else kind.goal)]
        return min(left, key=lambda kind: kind.begun / kind.goal, default=None)

    def begin(self, kind: Kind, seed: int) -> None:
        folder = self.home / "work" / f"{kind.name}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

        def attempt() -> int:
            try:
                kind.attack(seed, folder)
                check_nothing_is_left()
            except Failure as failure:
                (folder / _FAILURE).write_text(str(failure), errors="replace")
            except Exception:  # of the campaign itself, most likely
                (folder / _FAILURE).write_text(traceback.format_exc(), errors="replace")
            return 0

        kind.begun += 1
        process = fork(attempt, folder / "attempt.txt", leads=True)
        self._busy.append(_Attempt(kind, seed, folder, process, time.monotonic()))

    def look_after(self, attempts: list[_Attempt], *, keep: bool = False) -> None:
        """Collect ended attempts; successful ones are deleted unless they are to be kept."""
        for attempt in list(attempts):
            seconds = time.monotonic() - attempt.began
            if not ends(attempt.process, 0.02) and seconds < LONGEST * processes.slowness:
                continue
            attempts.remove(attempt)
            kind, text = attempt.kind, self._failure(attempt)
            kind.ended, kind.seconds = kind.ended + 1, kind.seconds + seconds
            if text:
                kind.failures[attempt.seed] = text
                self.console.print(f"FAILED {kind.name}:{attempt.seed}", style="red")
                self._show(text[:1500])
            elif not keep:
                shutil.rmtree(attempt.folder, ignore_errors=True)

    def _show(self, text: str) -> None:
        """Print text that may contain anything."""
        plain = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text)
        self.console.print(plain, markup=False, highlight=False, soft_wrap=True)

    def _failure(self, attempt: _Attempt) -> str:
        """What went wrong, if anything, in an attempt that has ended or hangs."""
        hangs = not ends(attempt.process, 0)
        if hangs:
            os.kill(attempt.process, signal.SIGKILL)
        status = status_of(attempt.process)
        end_session(attempt.process)
        if hangs:
            return f"it hangs: no end after {LONGEST * processes.slowness:.0f} seconds"
        if status != 0:
            log = (attempt.folder / "attempt.txt").read_text(errors="replace")
            return f"the attempt's process died with {status}\n{log[-2000:]}"
        found = attempt.folder / _FAILURE
        return found.read_text() if found.exists() else ""

    def conclude(self) -> bool:
        """Print and keep the table and the seeds to repeat; returns whether nothing failed."""
        table = Table("kind", "attempts", "seeds", "failures", "seconds", title="Campaign")
        results = {}
        for kind in self.kinds:
            numbers = {"attempts": kind.ended * kind.each, "seeds": kind.ended}
            results[kind.name] = {**numbers, "failures": kind.failures, "seconds": kind.seconds}
            cells = *numbers.values(), len(kind.failures), round(kind.seconds)
            table.add_row(kind.name, *map(str, cells), style="red" if kind.failures else None)
        self.console.print(table)
        for kind in self.kinds:
            for seed, text in kind.failures.items():
                lines = text.strip().splitlines()
                what = " ... ".join(line[:150] for line in (lines[0], *lines[1:][-1:]))
                self._show(f"python -m campaign --repeat {kind.name}:{seed}  # {what}")
        (self.home / "results.json").write_text(json.dumps(results, indent=1))
        return not any(kind.failures for kind in self.kinds)


def warm_up(home: Path) -> None:
    """Load everything that commands need and initialise PyTorch, once for all forks."""
    import evenstream
    from evenstream.cli.main import main

    for found in pkgutil.walk_packages(evenstream.__path__, "evenstream."):
        if not found.name.endswith(("__main__", "ray_backend", "_tracker")):
            import_module(found.name)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as trouble:
        words = f"run er-las --stream c-digits:fraction=0.01 --out {home / 'first'}"
        if main(words.split()):
            raise Failure(trouble.getvalue())
    assert threading.active_count() == 1, "forks would lose the other threads"
