"""Targets 6 and 8: whole commands. Two jobs against one; how long `--help` takes."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, alternate, seconds

EVENSTREAM = [sys.executable, "-m", "evenstream.cli.main"]
COMPARE = ["compare", "er", "er-las", "--stream", "c-digits", "--network", "convnet",
           "--seeds", "2", "--epochs", "14"]  # fmt: skip
"""Four runs of twenty seconds. Start and report take eight seconds with one job and with two, so
shorter runs say how long those take, and not what a second job is worth."""
PAPER = ["paper", "run", "augmentation", "--scale", "smoke", "--seeds", "8"]
"""Thirty-two runs of a second or two."""
HELP_SECONDS = 0.5


def lines(patience: Patience) -> Iterator[Line]:
    """Each command starts its processes anew, as a user's would."""
    repeats = Patience(1 if patience.seconds < 60 else 5, math.inf)
    for name, command in (("compare", COMPARE), ("paper run", PAPER)):
        ratio = alternate(_with_jobs(command, 1), _with_jobs(command, 2), repeats, warm_up=0)
        what = f"{name} with --jobs 1 / with --jobs 2"
        yield Line(6, what, ratio, at_least=1.8, note="wall time of the whole command")
    times = [seconds(_command(["--help"])) for _ in range(10)]
    yield Line(
        8,
        "evenstream --help / 0.5 s",
        Ratio.of(times, [HELP_SECONDS] * len(times)),
        at_most=1.0,
    )


def _with_jobs(command: list[str], jobs: int) -> Callable[[], object]:
    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder) / "out")
            _command([*command, "--jobs", str(jobs), "--out", out])()

    return run


def _command(arguments: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run([*EVENSTREAM, *arguments], check=True, capture_output=True)
