"""Put runs of one of the paper's tables beside the printed numbers, and draw both.

    python examples/reproduce_table.py mnist docs/results/c-mnist_paper.runs.jsonl OUT

The first argument is a name of `evenstream paper list`, the second a file of packed runs or a
folder of runs, such as the store that `evenstream paper run NAME` fills. Needs
`pip install 'evenstream[report]'`.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from matplotlib.figure import Figure

from evenstream.cli.main import main as evenstream


def draw(rows: list[dict[str, str]], names: list[str], picture: Path) -> None:
    """A row for each cell of the table: ours with its interval, and what is printed."""
    figure = Figure(figsize=(7, 1.2 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        interval = [float(row["interval_low"]), float(row["interval_high"])]
        axes.plot(interval, [place, place], color="#1d4ed8", lw=3, solid_capstyle="round")
        axes.plot(float(row["mean"]), place, "o", color="#1d4ed8", label="here, 95 % interval")
        axes.plot(float(row["printed_mean"]), place, "D", color="#9a3412", label="in the paper")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[:2], labels[:2], loc="outside upper right", ncols=2, frameon=False)
    axes.set(yticks=range(len(rows)), yticklabels=names, xlabel="final average accuracy, %")
    axes.invert_yaxis()
    axes.grid(axis="x", color="#e5e7eb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    means = {name: float(row["mean"]) for name, row in zip(names, rows, strict=True)}
    figure.savefig(picture, dpi=150, metadata={"Data": json.dumps(means)})


def main() -> None:
    """Write the report on one table, and draw its cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--picture", type=Path, default=Path("table.png"))
    args = parser.parse_args()
    status = evenstream(["paper", "report", args.name, f"--runs={args.runs}", f"--out={args.out}"])
    if status:
        raise SystemExit(status)
    with (args.out / f"{args.name}.csv").open(encoding="utf-8", newline="") as file:
        cells = [row for row in csv.DictReader(file) if row["metric"] == "A_T"]
    rows = [row for row in cells if row["mean"] and row["printed_mean"]]
    names = [f"{row['method']}, {row['memory']}" for row in rows]
    for name, row in zip(names, rows, strict=True):
        here, printed = float(row["mean"]), float(row["printed_mean"])
        print(f"{name}: {here:.1f} here, {printed:.1f} in the paper")
    draw(rows, names, args.picture)


if __name__ == "__main__":
    main()
