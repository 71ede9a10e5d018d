"""Target 4: the last steps of a long stream cost what the first ones did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, alternate, seconds

STEPS, BLOCK, BATCH = 50_000, 100, 10


def lines(patience: Patience) -> Iterator[Line]:
    """A stream of 50,000 steps with ten new classes every 5,000; a memory of a million rows."""
    learner = parts.learner_after("er-las", "mlp", batch=BATCH)
    source = parts.batches("mlp", batch=BATCH)
    times, resident = [], []
    for block in range(STEPS // BLOCK):
        first_class = block * BLOCK // (STEPS // 10) * 10

        def steps(shift: int = first_class) -> None:
            for _ in range(BLOCK):
                x, labels = next(source)
                learner.learn(x, [label + shift for label in labels])

        times.append(seconds(steps))
        resident.append(_resident_mb())
    tenth = len(times) // 10
    yield Line(
        4,
        f"last tenth / first tenth of {STEPS:,} steps of er-las, mlp",
        Ratio.of(times[-tenth:], times[:tenth]),
        at_most=1.03,
        note=f"blocks of {BLOCK} steps, 10 classes in the first tenth, 100 in the last",
    )
    yield Line(
        4,
        "resident memory after the last step / after a tenth",
        Ratio.once(resident[-1], resident[tenth]),
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
