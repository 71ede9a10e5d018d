"""Ends and labels of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.series import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


def accuracy_axis(ax: Axes, curves: Sequence[tuple[Array, Array]], label: str) -> None:
    """Fit the vertical axis to all accuracies and their spread, in round percentages."""
    values = np.concatenate([mean for mean, _ in curves])
    spread = np.concatenate([np.nan_to_num(std) for _, std in curves])
    known = ~np.isnan(values)
    low, high = 0.0, 100.0
    if known.any():
        low = float((values - spread)[known].min())
        high = float((values + spread)[known].max())
    low = max(0, 10 * math.floor((low - 2) / 10))
    high = min(100, 10 * math.ceil((high + 1) / 10))
    room = (high - low) * 0.03
    ax.set_ylim(low - (room if low == 0 else 0), high + room)
    step = 5 if high - low <= 20 else 10 if high - low <= 60 else 20
    ax.set_yticks(range(int(low), int(high) + 1, step))
    ax.set_ylabel(label)


def task_axis(ax: Axes, n_tasks: int, width: float) -> None:
    """Label as many tasks on the horizontal axis as a chart of this width has room for."""
    ax.set_xticks(labelled_tasks(n_tasks, (width - 62) / n_tasks, 24))


def labelled_tasks(n_tasks: int, room: float, wanted: float) -> list[int]:
    """Return the tasks to label, counted from 1, in round steps.

    Args:
        n_tasks: the number of tasks.
        room: pixels available per task.
        wanted: pixels that a label needs.
    """
    step = next((s for s in (1, 2, 5, 10, 20, 50) if s >= wanted / room), n_tasks)
    return [t for t in range(1, n_tasks + 1) if t % step == 0 or (t == 1 and step != 2)]


def round_ticks(axis: Axis, at_most: int, *, whole: bool = False) -> None:
    """Label an axis at round numbers, or at whole ones only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=at_most, steps=[1, 2, 2.5, 5, 10], integer=whole))
