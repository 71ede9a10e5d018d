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
COMMANDS = {
    "compare": ["compare", "er", "er-las", "--stream", "c-digits", "--network", "convnet",
                "--epochs", "14"],
    "paper run": ["paper", "run", "augmentation", "--scale", "smoke"],
}  # fmt: skip
"""Runs of twenty seconds, two for each seed; runs of a second or two, four for each seed."""
SEEDS = {"compare": 2, "paper run": 8}
"""About a minute on one core. Start and report, which take as long with two jobs as with one, are
a tenth of that."""
MORE_SEEDS = {"compare": 8, "paper run": 40}
"""About five minutes, for `make bench-full`."""
HELP_SECONDS = 0.5


def lines(patience: Patience) -> Iterator[Line]:
    """Each command starts its processes anew, as a user's would."""
    full = patience.seconds >= 60
    repeats = Patience(min(patience.pairs, 5) if full else 1, math.inf)
    for name, command in COMMANDS.items():
        seeds = (MORE_SEEDS if full else SEEDS)[name]
        command = [*command, "--seeds", str(seeds)]
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
