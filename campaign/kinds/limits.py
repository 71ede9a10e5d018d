"""Too few files, full disks, too little memory: reported in plain words, and recovered from."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import subprocess
from pathlib import Path

from campaign.cases import OUT, Case, Reference, besiege, quick_cases, turned
from campaign.processes import Ended

EACH, FULL = 5, 300
_NEW_MOUNTS = 0x20000


def attack(seed: int, folder: Path) -> None:
    draw, home = random.Random(seed), folder.parents[1]
    disks = ctypes.CDLL(None).unshare(_NEW_MOUNTS) == 0 and _mount("--make-rprivate", "/")

    def blow(case: Case, place: Path, expected: Reference) -> Ended:
        out = place / OUT
        if disks and not out.exists() and draw.random() < 0.4:
            out.mkdir(parents=True)
            _mount("-t", "tmpfs", "campaign", str(out))  # that only this attempt can see
        if out.is_mount():
            _mount("-o", f"remount,size={2 ** draw.uniform(12, 18):.0f}", str(out))
            ended = case.live(place).end()
            _mount("-o", f"remount,size={2**26}", str(out))
        else:
            number = draw.randrange(2**30)
            ended = case.live(place, lambda: _restrict(random.Random(number))).end()
        ended.check((0, 1, 2, -signal.SIGABRT))  # which is how libraries end without memory
        return ended

    besiege(turned(quick_cases(home), 3 * seed), folder, draw, blow, EACH, most=2)


def _mount(*words: str) -> bool:
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


def _restrict(draw: random.Random) -> None:
    """Limit a resource of this process."""
    if draw.random() < 0.25:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = {
        resource.RLIMIT_NOFILE: draw.randint(4, 20),
        resource.RLIMIT_FSIZE: int(2 ** draw.uniform(12, 18)),
        resource.RLIMIT_AS: pages * resource.getpagesize() + int(2 ** draw.uniform(16, 25)),
    }
    which = draw.choice(list(limits))
    resource.setrlimit(which, (limits[which], resource.getrlimit(which)[1]))
