"""Kill -9 of a real command or one of its workers, during start-up or at work."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from campaign.cases import (
    Case,
    Reference,
    besiege,
    live_cases,
    other_cases,
    run_cases,
    turned,
    worker_cases,
)
from campaign.processes import LOG, LONGEST, Ended, Life, members

EACH, FULL = 10, 1000


def attack(seed: int, folder: Path) -> None:
    draw, home = random.Random(seed), folder.parents[1]
    starting = 4.0  # seconds that it takes to start, more or less

    def blow(case: Case, place: Path, expected: Reference) -> Ended:
        nonlocal starting
        began = time.monotonic()
        life = case.live(place, real=True)
        if draw.random() < 0.5:
            life.ends(draw.random() * starting)
        else:
            see_work(life, place)
            starting = time.monotonic() - began
            life.ends(draw.random() * min(expected.seconds, starting))
        if draw.random() < 0.3 and case.has_workers:
            _kill_worker(life, draw)  # it must go on without
        else:
            life.hit(signal.SIGKILL)
        ended = life.end()
        ended.check((0, -signal.SIGKILL))
        return ended

    runs, others = run_cases(home), [*live_cases(home)[:6], *worker_cases(home), *other_cases(home)]
    cases = [runs[seed % len(runs)], *turned(others, seed * 3)]
    besiege(cases, folder, draw, blow, EACH, most=6)


def see_work(life: Life, folder: Path) -> None:
    """Wait until a newly started command has written something."""
    began, give_up = time.time(), time.monotonic() + LONGEST
    while not life.ends(0.01) and time.monotonic() < give_up:
        with suppress(FileNotFoundError):
            files = [path for path in folder.rglob("*") if not path.name.startswith(LOG)]
            if any(path.stat().st_mtime > began for path in files):
                return


def _kill_worker(life: Life, draw: random.Random) -> None:
    workers = set(members(os.getsid(0))) - {os.getpid(), life.process}
    with suppress(ProcessLookupError, IndexError):
        os.kill(draw.choice(sorted(workers)), signal.SIGKILL)
