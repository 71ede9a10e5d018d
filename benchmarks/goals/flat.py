"""Target 4: the last steps of a long stream cost what the first ones did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, alternate

STEPS, BLOCK, BATCH = 50_000, 100, 10
TENTH = STEPS // 10


class _Stream:
    """A learner somewhere in a stream with ten new classes every 5,000 steps."""

    def __init__(self) -> None:
        self.learner = parts.learner_after("er-las", "mlp", batch=BATCH)
        self.source = parts.batches("mlp", batch=BATCH)
        self.steps = 0

    def block(self) -> None:
        shift = self.steps // TENTH * 10
        for _ in range(BLOCK):
            x, labels = next(self.source)
            self.learner.learn(x, [label + shift for label in labels])
        self.steps += BLOCK


def lines(patience: Patience) -> Iterator[Line]:
    """The end of one stream alternating with the start of another; a memory of a million rows."""
    old, young = _Stream(), _Stream()
    while old.steps < TENTH:
        old.block()
    resident = _resident_mb()
    while old.steps < STEPS - TENTH:
        old.block()
    ratio = alternate(old.block, young.block, Patience(TENTH // BLOCK, math.inf), warm_up=0)
    yield Line(
        4,
        f"last tenth / first tenth of {STEPS:,} steps of er-las, mlp",
        ratio,
        at_most=1.03,
        note=f"blocks of {BLOCK} steps, 10 classes in the first tenth, 100 in the last",
    )
    yield Line(
        4,
        "resident memory after the last step / after a tenth",
        Ratio.once(_resident_mb(), resident),
        at_most=1.01,
        note="MB instead of ms",
    )
    large, small = (
        parts.steps_of(parts.learner_after("er", "mlp", memory=m), "mlp")
        for m in (1_000_000, 1_000)
    )
    ratio = alternate(large, small, patience, warm_up=20)
    yield Line(4, "er step with a memory of 1,000,000 / of 1,000, mlp", ratio, at_most=1.05)


def _resident_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
