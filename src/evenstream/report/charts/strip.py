"""Strip: the recall of every class in one row of shades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.charts.canvas import Margins, draw_svg
from evenstream.report.charts.heatmap import draw_cells
from evenstream.report.charts.style import Colours
from evenstream.report.charts.ticks import labelled_tasks
from evenstream.report.series import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 100
"""With more classes, neighbours share a column."""
_HEIGHT = 52
_MARGINS = Margins(left=12, right=12, top=2, bottom=20)


def strip_svg(recall: Array, width: int, salt: str) -> str:
    """Return the strip of a method; classes in the order of the data set, from left to right."""
    return draw_svg((width, _HEIGHT), salt, lambda ax, c: _draw(ax, recall, c, width), _MARGINS)


def classes_per_column(n_classes: int) -> int:
    """Return how many neighbouring classes share a column."""
    return -(-n_classes // COLUMNS)


def _draw(ax: Axes, recall: Array, colours: Colours, width: int) -> None:
    """Draw the cells and number the classes."""
    each = classes_per_column(len(recall))
    columns = [_mean(recall[first : first + each]) for first in range(0, len(recall), each)]
    draw_cells(ax, np.array([columns]), 0.03 if len(columns) <= 40 else 0.0, colours)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(0.5, -0.5)
    ax.grid(False)
    ax.set_yticks([])
    labels = labelled_tasks(len(columns), width / len(columns), 30)
    ax.set_xticks([n - 1 for n in labels], [str((n - 1) * each + 1) for n in labels])
    ax.tick_params(length=0, pad=3)


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else np.nan
