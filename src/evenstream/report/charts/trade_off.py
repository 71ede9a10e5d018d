"""Accuracy against training time: a line for each method, a point for each of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.charts.canvas import Size, draw_svg
from evenstream.report.charts.style import Colours, colour, line_style, marker
from evenstream.report.charts.ticks import accuracy_axis, round_ticks
from evenstream.report.series import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_FROM = 10
"""Ratio of the longest to the shortest time above which the axis is logarithmic."""


@dataclass(frozen=True)
class Line:
    """A method's points."""

    name: str
    index: int
    seconds: Array
    accuracy: Array
    spread: Array
    """Deviation of the accuracy over seeds; NaN with one seed."""
    labels: tuple[str, ...]
    """What is written at each point: a number."""


def trade_off_svg(drawn: Sequence[Line], size: Size, salt: str) -> str:
    """Return the chart; seconds from left to right, accuracy upwards."""
    return draw_svg(size, salt, lambda ax, c: _draw(ax, drawn, c))


def _draw(ax: Axes, drawn: Sequence[Line], colours: Colours) -> None:
    for line in drawn:
        ink = colours[colour(line)]
        ax.errorbar(
            line.seconds, line.accuracy, yerr=np.nan_to_num(line.spread), color=ink,
            linestyle=line_style(line), linewidth=1.6, marker=marker(line), markersize=7,
            elinewidth=1, zorder=3,
        )  # fmt: skip
        for x, y, label in zip(line.seconds, line.accuracy, line.labels, strict=True):
            ax.annotate(
                label, (x, y), (0, 8), textcoords="offset points", ha="center", fontsize=10,
                color=colours["muted"], parse_math=False,
            )  # fmt: skip
    accuracy_axis(ax, [(line.accuracy, line.spread) for line in drawn], "Final accuracy (%)")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.06 * (high - low))  # room for the labels
    every = np.concatenate([line.seconds for line in drawn])
    if every.min() > 0 and every.max() / every.min() > _LOG_FROM:
        _logarithmic(ax, float(every.min()), float(every.max()))
    else:
        ax.set_xlim(0, every.max() * 1.08 if every.max() > 0 else 1)
        round_ticks(ax.xaxis, 6)
        ax.set_xlabel("Training time (seconds)")


def _logarithmic(ax: Axes, low: float, high: float) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    ax.set_xlim(low / 1.25, high * 1.25)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("Training time (seconds, logarithmic)")
