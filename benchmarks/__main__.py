"""Every speed target as a ratio measured side by side: `make bench`, `make bench-full`.

Prints target, measured and verdict of each line and writes them as JSON with the machine's
description. A missed target is not an error: timings are noisy, and machines differ.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from benchmarks.goals import (
    criterion,
    evaluation,
    flat,
    frozen,
    layers,
    methods,
    runs,
    step,
    tables,
    threads,
)
from benchmarks.timing import Patience
from evenstream.run.environment import describe_environment
from evenstream.run.machine import use_machine

GROUPS = {
    "step": step.lines,
    "criterion": criterion.lines,
    "flat": flat.lines,
    "tables": tables.lines,
    "frozen": frozen.lines,
    "methods": methods.lines,
    "runs": runs.lines,
    "evaluation": evaluation.lines,
    "threads": threads.lines,
    "other-methods": methods.other_lines,
    "layers": layers.lines,
}
UNASKED = [name for name in GROUPS if name not in ("other-methods", "layers")]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "groups", nargs="*", help=f"some of {', '.join(GROUPS)} (default: all but the last two)"
    )
    parser.add_argument("--pairs", type=int, default=200, help="A/B pairs of a line")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="time for a line, if the pairs take longer"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results.json"))
    args = parser.parse_args()
    if unknown := set(args.groups) - set(GROUPS):
        parser.error(f"there is no group {', '.join(sorted(unknown))}")
    use_machine(1)
    torch.manual_seed(0)
    patience, found, start = Patience(args.pairs, args.seconds), [], time.perf_counter()
    for name in args.groups or UNASKED:
        for line in GROUPS[name](patience):
            print(line, flush=True)
            found.append(line.as_json())
    took = time.perf_counter() - start
    print(f"{len(found)} lines in {took:.0f} s")
    record = {"environment": describe_environment(), "seconds": took, "lines": found}
    args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
