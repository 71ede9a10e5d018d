"""Learn from CSV files that bring new classes on the second day, and draw the predictions.

    python examples/own_table.py FOLDER --picture table.png

Three days of a plant's log are written into FOLDER. Monday and Tuesday are learned, Wednesday is
predicted; no leak has been seen since Monday. Needs `pip install 'evenstream[report]'`.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from evenstream.cli.main import main as evenstream

TYPICAL = {"ok": [60, 2.0, 10], "leak": [58, 1.2, 14], "blocked": [66, 3.1, 2]}
DAYS = {"monday": ["ok", "leak"], "tuesday": ["ok", "blocked"], "wednesday": list(TYPICAL)}
COLOURS = {"ok": "#6b7280", "leak": "#1d4ed8", "blocked": "#c2410c"}
Row = dict[str, str]


def write_days(folder: Path, rows: int = 1000) -> None:
    """Logs of temperature, pressure and flow, and what was wrong."""
    rng = np.random.default_rng(0)
    for day, states in DAYS.items():
        with (folder / f"{day}.csv").open("w", newline="") as file:
            log = csv.writer(file)
            log.writerow(["temperature", "pressure", "flow", "state"])
            for state in rng.choice(states, rows):
                log.writerow([*rng.normal(TYPICAL[state], [2, 0.3, 1.5]).round(2), state])


def read(file: Path) -> list[Row]:
    """The rows of a CSV file."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def run(*words: str | Path) -> None:
    """A command of evenstream."""
    if status := evenstream([str(word) for word in words]):
        raise SystemExit(status)


def draw(wednesday: list[Row], answers: list[str], picture: Path) -> None:
    """Wednesday's rows in the colours of the answers; wrong ones are ringed."""
    right = {state: [] for state in TYPICAL}  # type: dict[str, list[bool]]
    for row, answer in zip(wednesday, answers, strict=True):
        right[row["state"]].append(row["state"] == answer)
    shares = {state: round(100 * float(np.mean(found))) for state, found in right.items()}
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes, bars = figure.subplots(1, 2, width_ratios=[2, 1])
    place = np.array([[float(row["flow"]), float(row["pressure"])] for row in wednesday])
    axes.scatter(*place.T, s=8, color=[COLOURS[answer] for answer in answers])
    pairs = zip(wednesday, answers, strict=True)
    wrong = np.array([row["state"] != answer for row, answer in pairs])
    axes.scatter(*place[wrong].T, s=50, facecolors="none", edgecolors="black", lw=0.8)
    axes.set(xlabel="flow", ylabel="pressure", title="Wednesday as predicted; errors are ringed")
    bars.bar(list(shares), list(shares.values()), color=[COLOURS[state] for state in shares])
    for number, share in enumerate(shares.values()):
        bars.annotate(f"{share} %", (number, share + 1), ha="center")
    bars.set(title="Predicted right", ylim=(0, 110), yticks=[])
    for each in (axes, bars):
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=150, metadata={"Data": json.dumps(shares)})
    print(", ".join(f"{state} {share} % right" for state, share in shares.items()))


def main() -> None:
    """Write the log, learn two days, predict the third, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--picture", type=Path, default=Path("table.png"))
    args = parser.parse_args()
    folder: Path = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_days(folder)
    run("learn", folder / "plant", "--from", folder / "monday.csv", "--label", "state")
    run("learn", folder / "plant", "--from", folder / "tuesday.csv")
    out = folder / "predictions.csv"
    run("predict", folder / "plant", folder / "wednesday.csv", "--out", out)
    answers = [row["label"] for row in read(out)]
    draw(read(folder / "wednesday.csv"), answers, args.picture)


if __name__ == "__main__":
    main()
