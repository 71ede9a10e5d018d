"""Line charts: average accuracy after each task and against time, final accuracies, online ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.charts.canvas import Size, draw_svg
from evenstream.report.charts.style import Colours, colour, line_style, marker
from evenstream.report.charts.ticks import accuracy_axis, round_ticks, task_axis
from evenstream.report.series import Array, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AVERAGE = "Average accuracy (%)"
_POINTS = 250


def accuracy_svg(series: Sequence[Series], size: Size, salt: str) -> str:
    """Return the lines of average accuracy after each task, with a band of one deviation."""
    return draw_svg(size, salt, lambda ax, c: draw_accuracy(ax, series, c, size[0]))


def last_row_svg(series: Sequence[Series], size: Size, salt: str) -> str:
    """Return the lines of the accuracy on each task after the last one."""
    return draw_svg(size, salt, lambda ax, c: _draw_last_row(ax, series, c, size[0]))


def seconds_svg(series: Sequence[Series], size: Size, salt: str) -> str:
    """Return the average accuracy against the training seconds spent so far."""
    return draw_svg(size, salt, lambda ax, c: _draw_seconds(ax, series, c))


def online_svg(series: Sequence[Series], size: Size, salt: str) -> str:
    """Return the lines of online accuracy over the steps, with a band of one deviation."""
    return draw_svg(size, salt, lambda ax, c: _draw_online(ax, series, c))


def draw_accuracy(ax: Axes, series: Sequence[Series], colours: Colours, width: float) -> None:
    """Draw average accuracy after each task."""
    n = series[0].n_tasks
    tasks = np.arange(1, n + 1, dtype=np.float64)
    every = math.ceil(n / (width / 14))
    for s in series:
        _band(ax, s, tasks, s.accuracy, s.accuracy_std, colours)
        ax.plot(
            tasks, s.accuracy, color=colours[colour(s)], linestyle=line_style(s),
            marker=marker(s), markevery=every, zorder=3,
        )  # fmt: skip
    ax.set_xlim(0.7, n + 0.3) if n > 1 else ax.set_xlim(0.5, 1.5)
    accuracy_axis(ax, [(s.accuracy, s.accuracy_std) for s in series], _AVERAGE)
    task_axis(ax, n, width)
    ax.set_xlabel("Tasks learned so far")


def _draw_last_row(ax: Axes, series: Sequence[Series], colours: Colours, width: float) -> None:
    """Draw the last row of each accuracy matrix."""
    n = series[0].n_tasks
    every = math.ceil(n / (width / 14))
    for s in series:
        ax.plot(
            np.arange(1, n + 1), s.matrix[-1], color=colours[colour(s)], linestyle=line_style(s),
            marker=marker(s), markevery=every, zorder=3,
        )  # fmt: skip
    ax.set_xlim(0.4, n + 0.6)
    nothing = np.full(n, np.nan)
    accuracy_axis(ax, [(s.matrix[-1], nothing) for s in series], "Accuracy (%)")
    task_axis(ax, n, width)
    ax.set_xlabel("Task")


def _band(ax: Axes, series: Series, x: Array, mean: Array, std: Array, colours: Colours) -> None:
    """Shade one standard deviation over seeds around a line."""
    if np.isnan(std).all():
        return
    low, high = (np.clip(mean + sign * np.nan_to_num(std), 0, 100) for sign in (-1, 1))
    ax.fill_between(x, low, high, color=colours[colour(series)], alpha=0.15, linewidth=0)


def _draw_online(ax: Axes, series: Sequence[Series], colours: Colours) -> None:
    """Draw online accuracy over the steps; neighbours are averaged where there are too many."""
    for s in series:
        steps, mean, std = (_thinned(curve) for curve in (s.steps, s.online, s.online_std))
        _band(ax, s, steps, mean, std, colours)
        ax.plot(
            steps, mean, color=colours[colour(s)], linestyle=line_style(s), linewidth=1.6,
            marker=marker(s), markevery=max(1, len(steps) // 8), zorder=3,
        )  # fmt: skip
    accuracy_axis(ax, [(s.online, s.online_std) for s in series], "Online accuracy (%)")
    ax.set_xlim(0, max(s.steps[-1] for s in series) * 1.02)
    round_ticks(ax.xaxis, 6)
    ax.set_xlabel("Training steps so far")


def _thinned(curve: Array) -> Array:
    """Return a curve of at most `_POINTS` points by averaging neighbours."""
    parts = np.array_split(curve, min(len(curve), _POINTS))
    return np.array([part.mean() for part in parts])


def _draw_seconds(ax: Axes, series: Sequence[Series], colours: Colours) -> None:
    """Draw accuracy against time: a dot for each task, a large marker for the last."""
    for s in series:
        x, y, ink = s.seconds, s.accuracy, colours[colour(s)]
        ax.plot(x, y, color=ink, linestyle=line_style(s), linewidth=1.2, alpha=0.65)
        ax.plot(x[:-1], y[:-1], color=ink, linestyle="none", marker="o", markersize=3.5)
        ax.plot(
            x[-1:], y[-1:], color=ink, linestyle="none", marker=marker(s), markersize=9, zorder=4
        )
    accuracy_axis(ax, [(s.accuracy, s.accuracy_std) for s in series], _AVERAGE)
    longest = float(np.nanmax([np.nanmax(s.seconds) for s in series]))
    ax.set_xlim(0, longest * 1.05 if longest > 0 else 1)
    round_ticks(ax.xaxis, 6)
    ax.set_xlabel("Training time so far (seconds)")
