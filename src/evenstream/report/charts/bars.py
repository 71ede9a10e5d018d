"""Bar charts: where predictions go, a number for each method, counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.charts.canvas import MARGINS, Margins, Size, draw_svg
from evenstream.report.charts.style import Colours, Drawn, colour
from evenstream.report.charts.ticks import round_ticks, task_axis
from evenstream.report.series import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def share_svg(series: Sequence[Series], size: Size, salt: str, top: float) -> str:
    """Return bars for the share of predictions on each task, and the true share, dashed.

    Args:
        series: the methods.
        size: size of the chart.
        salt: makes the ids in the SVG unique within the page.
        top: the upper end of the axis in percent; use the same for charts to be compared.
    """

    def draw(ax: Axes, colours: Colours) -> None:
        draw_share(ax, series, colours, size[0], top)
        if size[1] < 240:
            ax.set_ylabel("Share (%)")

    return draw_svg(size, salt, draw)


def share_fits(series: Sequence[Series], width: int) -> bool:
    """Whether the bars of all methods side by side are wide enough to distinguish."""
    room = width - MARGINS.left - MARGINS.right
    return room / (series[0].n_tasks * (len(series) + 0.6)) >= 5


def share_top(series: Sequence[Series]) -> float:
    """Return an upper end in percent that covers all shares, predicted and true."""
    values = np.concatenate([np.concatenate([s.share, s.truth]) for s in series])
    highest = 100 * float(np.nanmax(values))
    step = 20 if highest > 50 else 10 if highest > 20 else 5
    return float(min(100, step * math.ceil(highest * 1.02 / step)))


def draw_share(
    ax: Axes, series: Sequence[Series], colours: Colours, width: float, top: float
) -> None:
    """Draw a group of bars for each task, one bar for each method."""
    n = series[0].n_tasks
    tasks = np.arange(1, n + 1)
    bar = 1 / (len(series) + 0.6)
    for place, s in enumerate(series):
        offset = (place - (len(series) - 1) / 2) * bar
        ax.bar(
            tasks + offset, np.nan_to_num(100 * s.share), width=bar * 0.92,
            color=colours[colour(s)], linewidth=0,
        )  # fmt: skip
    _truth(ax, series[0], colours)
    ax.set_xlim(0.45, n + 0.55)
    ax.set_ylim(0, top)
    round_ticks(ax.yaxis, 5)
    task_axis(ax, n, width)
    ax.set_xlabel("Task that the predicted class belongs to")
    ax.set_ylabel("Share of predictions (%)")


def _truth(ax: Axes, series: Series, colours: Colours) -> None:
    """Draw the true share of each task as a dashed line across its bars."""
    if np.isnan(series.truth).all():
        return
    edges = np.repeat(np.arange(0.5, series.n_tasks + 1), 2)[1:-1]
    ax.plot(
        edges, np.repeat(100 * series.truth, 2), color=colours["ink"], linewidth=1.4,
        linestyle=(0, (4, 3)), zorder=4,
    )  # fmt: skip


def method_bars_svg(
    values: Sequence[tuple[Drawn, float]], label: str, size: Size, salt: str
) -> str:
    """Return a bar for each method, in its colour; the page says which is which."""

    def draw(ax: Axes, colours: Colours) -> None:
        for place, (drawn, value) in enumerate(values):
            ax.bar(place, value, width=0.72, color=colours[colour(drawn)], linewidth=0)
        ax.set_xlim(-0.7, len(values) - 0.3)
        ax.set_xticks([])
        round_ticks(ax.yaxis, 5)
        ax.set_ylabel(label)

    return draw_svg(size, salt, draw, Margins(left=58, right=14, top=10, bottom=14))


def count_bars_svg(
    counts: Sequence[int], axes: tuple[str, str], size: Size, salt: str, top: float | None = None
) -> str:
    """Return a bar for each count, numbered from 1; `top` makes several charts comparable."""

    def draw(ax: Axes, colours: Colours) -> None:
        ax.bar(range(1, len(counts) + 1), counts, width=0.8, color=colours["heat"], linewidth=0)
        ax.set_xlim(0.3, len(counts) + 0.7)
        ax.set_ylim(0, top or max(1, 1.05 * max(counts)))
        task_axis(ax, len(counts), size[0])
        round_ticks(ax.yaxis, 5, whole=True)
        ax.set_ylabel(axes[0])
        ax.set_xlabel(axes[1])

    return draw_svg(size, salt, draw)
