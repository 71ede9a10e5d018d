"""Kill -9 while labels arrive late, change and go: the resumed learner is the same, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from campaign.cases import methods
from campaign.label_life import lead
from campaign.outcomes import difference, outcome
from campaign.processes import Failure, Operations, die, fork, status_of

EACH, FULL = 3, 300


def attack(seed: int, folder: Path) -> None:
    draw = random.Random(seed)
    method = draw.choice(methods(of_streams=True))
    operations, began = Operations(), time.monotonic()
    if live(method, seed, folder / "whole", operations.watch):
        raise Failure(f"{method}: it dies without harm")
    seconds, expected = time.monotonic() - began, outcome(folder / "whole")
    killed = number = 0
    while killed < EACH:
        place, number = folder / f"cut-{number}", number + 1
        while killed < EACH and _hit(method, seed, place, draw, operations.count, seconds):
            killed += 1
        live(method, seed, place)
        wrong = difference(outcome(place), expected)
        if wrong:
            raise Failure(f"{method}, killed {killed} times: {wrong}")


def _hit(
    method: str, seed: int, place: Path, draw: random.Random, operations: int, seconds: float
) -> bool:
    """Kill one run at a random moment, or right before it changes a file; False if it had ended."""
    if draw.random() < 0.4:
        return live(method, seed, place, after=draw.random() * seconds)
    at = draw.randint(1, operations)
    return live(method, seed, place, lambda: Operations().watch(at, die))


def live(
    method: str,
    seed: int,
    folder: Path,
    prepare: Callable[[], None] = lambda: None,
    *,
    after: float | None = None,
) -> bool:
    """Run in a fork; returns whether it was killed."""

    def work() -> int:
        warnings.simplefilter("ignore")
        prepare()
        lead(method, seed, folder)
        return 0

    log = folder.with_name(f"{folder.name}.txt")
    child = fork(work, log)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)  # not waited for yet, so it is still this one
    status = status_of(child)
    if status > 0:
        raise Failure(f"{method}: it ended with {status}:\n{log.read_text()[-3000:]}")
    return status == -signal.SIGKILL
