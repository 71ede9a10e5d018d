"""Compare methods on the same seeds, and draw the difference of every seed with its interval.

    python examples/compare_methods.py OUT er er-las --stream c-digits --seeds 5

The first method is what the others are compared with. Runs that are already in OUT are used as they
are, so the picture can be drawn again, or drawn of what `evenstream compare --out OUT` has made.
Needs `pip install 'evenstream[report]'`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evenstream.cli.main import main as evenstream
from evenstream.statistics import paired_difference


def draw(summary: dict[str, Any], methods: list[str], picture: Path) -> None:
    """One row for each method: a dot for each seed, and the mean difference with its interval."""
    first, *others = methods
    base = summary[first]["A_T"]["values"]
    figure = Figure(figsize=(7, 1.2 + 0.6 * len(others)), layout="constrained")
    axes = figure.subplots()
    for row, method in enumerate(others):
        values = summary[method]["A_T"]["values"]
        difference = paired_difference(values, base)
        low, high = difference.low or difference.mean, difference.high or difference.mean
        axes.plot([low, high], [row, row], color="#1d4ed8", lw=3, solid_capstyle="round")
        axes.plot(difference.mean, row, "D", color="#1d4ed8", ms=8)
        gains = [value - start for value, start in zip(values, base, strict=True)]
        axes.plot(gains, [row + 0.22] * len(gains), "o", color="#6b7280", ms=4)
        print(f"{method} minus {first}: {difference.mean:+.1f} points, {low:+.1f} to {high:+.1f}")
    axes.axvline(0, color="black", lw=1)
    axes.set(
        yticks=range(len(others)),
        yticklabels=[f"{method} minus {first}" for method in others],
        ylim=(-0.6, len(others) - 0.3),
        xlabel="final average accuracy, points; dots are seeds, the bar is the 95 % interval",
    )
    axes.spines[["top", "right"]].set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


def main() -> None:
    """Make the runs that are missing, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--stream", default="c-digits")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=0, help="runs at the same time; 0: each core")
    parser.add_argument("--picture", type=Path, default=Path("differences.png"))
    args = parser.parse_args()
    if not (args.out / "summary.json").exists():
        options = [f"--{name}={getattr(args, name)}" for name in ("stream", "seeds", "batch")]
        status = evenstream(
            ["compare", *args.methods, *options, f"--jobs={args.jobs}", f"--out={args.out}"]
        )
        if status:
            raise SystemExit(status)
    summary = json.loads((args.out / "summary.json").read_text(encoding="utf-8"))
    draw(summary, args.methods, args.picture)


if __name__ == "__main__":
    main()
