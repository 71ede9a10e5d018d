"""The figure of "LAS explained": labels over time, the prior, and where the boundary goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

STEPS, CHANGE, ROWS = 24, 12, 8
OLD, NEW = "#1f77b4", "#c2410c"


def draw_las(folder: Path) -> Path:
    """Write las.svg into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = _labels()
    with mpl.rc_context({"svg.hashsalt": "las", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(10, 3), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=[1.3, 0.7, 1.3])
        _draw_stream(left, labels)
        share = labels[:, -1].mean()
        _draw_prior(middle, share)
        _draw_boundaries(right, share)
        file = folder / "las.svg"
        figure.savefig(file, metadata={"Date": None})
    return file


def _labels() -> Any:
    """ROWS labels a step: 0 old, 1 new. After the change only replay brings the old class."""
    labels = np.zeros((ROWS, STEPS), dtype=int)
    labels[:-1, CHANGE:] = 1
    return labels


def _draw_stream(axes: Any, labels: Any) -> None:
    for value, colour, name in ((0, OLD, "old class"), (1, NEW, "new class")):
        rows, steps = np.nonzero(labels == value)
        axes.scatter(steps + 1, rows + 1, s=14, marker="s", color=colour, label=name)
    axes.axvspan(STEPS - 0.5, STEPS + 0.5, color="#888888", alpha=0.35, lw=0)
    axes.annotate("window", (STEPS, ROWS + 0.6), ha="right", fontsize=9)
    axes.set(title="The rows of each step", xlabel="step", yticks=[], ylim=(0, ROWS + 1.6))
    axes.legend(loc="upper left", ncols=2, frameon=False, fontsize=8, borderaxespad=0)


def _draw_prior(axes: Any, share: float) -> None:
    heights = [1 - share, share]
    axes.bar(["old", "new"], heights, color=[OLD, NEW])
    for place, height in enumerate(heights):
        axes.annotate(
            f"log π = {np.log(height):.2f}".replace("-", "−"),
            (place, height + 0.03),
            ha="center",
            fontsize=8,
        )
    axes.set(title="The prior π", ylim=(0, 1.1), yticks=[0, 0.5, 1])


def _draw_boundaries(axes: Any, share: float) -> None:
    """Two classes of spread 1 around ∓1: log-odds 2x + log(π_new / π_old)."""
    x = np.linspace(-4, 4, 200)
    for mean, colour in ((-1, OLD), (1, NEW)):
        axes.plot(x, np.exp(-((x - mean) ** 2) / 2), color=colour)
    plain = -np.log(share / (1 - share)) / 2
    axes.axvline(plain, color="black", ls="--")
    axes.annotate("plain\nsoftmax", (plain - 0.15, 1.06), ha="right", fontsize=9)
    axes.axvline(0, color="black")
    axes.annotate("LAS", (0.15, 1.12), fontsize=9)
    axes.set(title="The boundary that is learned", xlabel="input", yticks=[], ylim=(0, 1.35))
