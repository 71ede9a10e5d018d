"""Heat map: the accuracy on each task after each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.charts.canvas import Margins, Size, draw_svg
from evenstream.report.charts.style import Colours
from evenstream.report.charts.ticks import labelled_tasks
from evenstream.report.series import Array, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import PathPatch

_Shades = list[tuple[float, list[tuple[int, int]]]]
_MARGINS = Margins(left=44, right=6, top=40, bottom=6)
_LEAST = 20  # smaller cells have neither a gap nor a number


def matrix_size(n_tasks: int) -> Size:
    """Return the width and height in CSS pixels of a heat map for this many tasks."""
    side = n_tasks * _cell(n_tasks)
    return (
        round(side + _MARGINS.left + _MARGINS.right),
        round(side + _MARGINS.top + _MARGINS.bottom),
    )


def matrix_svg(series: Series, salt: str) -> str:
    """Return the heat map of a mean accuracy matrix, with the numbers in the cells."""
    size = matrix_size(series.n_tasks)
    return draw_svg(size, salt, lambda ax, c: _draw(ax, series.matrix, c), _MARGINS)


def opacity_of(percent: float) -> float:
    """Return the shade of a percentage, in steps too small to see."""
    return round(0.05 + 0.95 * round(percent / 100 * 40) / 40, 4)


def ink_on(opacity: float) -> str:
    """Return the name of a text colour that is readable on a shade."""
    return "cell-low" if opacity < 0.58 else "cell-mid" if opacity < 0.80 else "cell-high"


def _cell(n_tasks: int) -> float:
    """Return the side of a cell in CSS pixels."""
    for limit, side in ((5, 54.0), (7, 46.0), (12, 36.0), (25, 27.0), (45, 14.0)):
        if n_tasks <= limit:
            return side
    return 620 / n_tasks


def _draw(ax: Axes, matrix: Array, colours: Colours) -> None:
    """Draw cells, numbers and labels."""
    cell = _cell(len(matrix))
    for opacity, cells in draw_cells(ax, matrix, 0.03 if cell >= _LEAST else 0.0, colours):
        if cell >= _LEAST:
            _numbers(ax, matrix, cells, cell, colours[ink_on(opacity)])
    _label(ax, len(matrix), cell)


def draw_cells(ax: Axes, matrix: Array, gap: float, colours: Colours) -> _Shades:
    """Draw a box for each known percentage; returns the shades that occur, with their cells."""
    shades = _shades(matrix)
    for opacity, cells in shades:
        ax.add_patch(_boxes(cells, gap, colours["heat"], opacity))
    return shades


def _shades(matrix: Array) -> _Shades:
    """Return the shades that occur, each with its cells."""
    shades: dict[float, list[tuple[int, int]]] = {}
    for i, j in zip(*np.nonzero(~np.isnan(matrix)), strict=True):
        shades.setdefault(opacity_of(float(matrix[i, j])), []).append((int(i), int(j)))
    return sorted(shades.items())


def _boxes(cells: Sequence[tuple[int, int]], gap: float, colour: str, opacity: float) -> PathPatch:
    """Return all cells of a shade as one path: a page with many tasks stays small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    outlines = []
    for i, j in cells:
        x0, x1, y0, y1 = j - 0.5 + gap, j + 0.5 - gap, i - 0.5 + gap, i + 0.5 - gap
        outlines.append(Path([(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)], closed=True))
    path = Path.make_compound_path(*outlines)
    return PathPatch(path, facecolor=colour, alpha=opacity, linewidth=0)


def _numbers(
    ax: Axes, matrix: Array, cells: Sequence[tuple[int, int]], cell: float, ink: str
) -> None:
    """Write the accuracies into cells, without decimals where they are small."""
    digits, size = (1, min(12, 0.32 * cell)) if cell >= 32 else (0, 0.36 * cell)
    for i, j in cells:
        text = f"{matrix[i, j]:.{digits}f}"
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)


def _label(ax: Axes, n_tasks: int, cell: float) -> None:
    """Number the tasks: tested on from left to right, learned from top to bottom."""
    ax.set_xlim(-0.5, n_tasks - 0.5)
    ax.set_ylim(n_tasks - 0.5, -0.5)
    ax.grid(False)
    tasks = labelled_tasks(n_tasks, cell, 20)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([t - 1 for t in tasks], [str(t) for t in tasks])
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, pad=3)
    ax.spines["bottom"].set_visible(False)
    ax.set_xlabel("Tested on task")
    ax.set_ylabel("After learning task")
