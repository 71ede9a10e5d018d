"""Kill -9 of a fork without start-up, at a random moment or right before it changes a file."""

from __future__ import annotations

import random
import signal
from pathlib import Path

from campaign.cases import Case, Reference, besiege, quick_cases, turned
from campaign.processes import Ended, Operations, die

EACH, FULL = 10, 1000


def attack(seed: int, folder: Path) -> None:
    hit(turned(quick_cases(folder.parents[1]), 3 * seed), seed, folder, EACH)


def hit(cases: list[Case], seed: int, folder: Path, times: int) -> None:
    """Hit these commands so many times in all."""
    draw = random.Random(seed)

    def blow(case: Case, place: Path, expected: Reference) -> Ended:
        if draw.random() < 0.5:
            at = draw.randint(1, expected.operations)
            life = case.live(place, lambda: Operations().watch(at, die))
        else:
            life = case.live(place)
            if not life.ends(draw.random() * expected.seconds):
                life.hit(signal.SIGKILL)
        ended = life.end()
        ended.check((0, -signal.SIGKILL))
        return ended

    besiege(cases, folder, draw, blow, times)
