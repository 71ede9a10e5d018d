"""Results of the benchmark as tables for docs/appendix/results.md.

python -m benchmarks.first_contact.table FILE.jsonl ...
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from evenstream.statistics import mean_interval

MEASURES = ("final", "prequential", "balanced")


def tables(files: list[Path]) -> str:
    """A table for each measure: a row for each stream, a column for each model, in percent.

    The mean over seeds; half the width of its 95 % interval where there are several that differ.
    """
    found: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for file in files:
        for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            for measure in MEASURES:
                if measure in line:
                    found[measure, line["stream"], line["who"]][line["seed"]] = 100 * line[measure]
    parts = []
    for measure in MEASURES:
        streams, people = (
            list(dict.fromkeys(key[at] for key in found if key[0] == measure)) for at in (1, 2)
        )
        rows = [
            [stream, *(_cell([*found[measure, stream, who].values()]) for who in people)]
            for stream in streams
        ]
        parts.append(
            "\n".join(map(_line, [[measure, *people], ["---"] * (1 + len(people)), *rows]))
        )
    return "\n\n".join(parts)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(values: list[float]) -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.1f} (one seed)"
    if np.ptp(values) == 0:
        return f"{values[0]:.1f}"
    interval = mean_interval(values)
    assert interval.high is not None
    return f"{interval.mean:.1f} ± {interval.high - interval.mean:.1f}"


if __name__ == "__main__":
    print(tables([Path(name) for name in sys.argv[1:]]))
