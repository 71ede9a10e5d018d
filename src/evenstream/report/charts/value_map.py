"""Heat map of a number over two settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evenstream.report.charts.canvas import Margins, Size, draw_svg
from evenstream.report.charts.heatmap import draw_cells, ink_on
from evenstream.report.charts.style import Colours
from evenstream.report.formats import plain
from evenstream.report.series import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGINS = Margins(left=64, right=6, top=6, bottom=46)
_CELL = (58, 44)
_SHADES = (8.0, 100.0)
"""From the lowest to the highest number, as `draw_cells` counts them."""


def value_map_size(rows: int, columns: int) -> Size:
    """Return the width and height in CSS pixels."""
    return (
        round(columns * _CELL[0] + _MARGINS.left + _MARGINS.right),
        round(rows * _CELL[1] + _MARGINS.top + _MARGINS.bottom),
    )


def value_map_svg(
    values: Array, names: tuple[Sequence[str], Sequence[str]], axes: tuple[str, str], salt: str
) -> str:
    """Return a heat map with the numbers in the cells; the stronger the colour, the higher.

    Args:
        values: one row for each value of the vertical setting; NaN where nothing is known.
        names: of the rows, from bottom to top, and of the columns.
        axes: names of the vertical and horizontal settings.
        salt: makes the ids in the SVG unique within the page.
    """
    size = value_map_size(*values.shape)
    return draw_svg(size, salt, lambda ax, c: _draw(ax, values, names, axes, c), _MARGINS)


def _draw(
    ax: Axes,
    values: Array,
    names: tuple[Sequence[str], Sequence[str]],
    axes: tuple[str, str],
    colours: Colours,
) -> None:
    for opacity, cells in draw_cells(ax, _shades(values), 0.03, colours):
        for i, j in cells:
            ax.text(
                j, i, plain(float(values[i, j])), ha="center", va="center", fontsize=12,
                color=colours[ink_on(opacity)],
            )  # fmt: skip
    rows, columns = values.shape
    ax.set_xlim(-0.5, columns - 0.5)
    ax.set_ylim(-0.5, rows - 0.5)
    ax.grid(False)
    ax.set_yticks(range(rows), list(names[0]), parse_math=False)
    ax.set_xticks(range(columns), list(names[1]), parse_math=False)
    ax.spines["bottom"].set_visible(False)
    ax.set_ylabel(axes[0], parse_math=False)
    ax.set_xlabel(axes[1], parse_math=False)


def _shades(values: Array) -> Array:
    """Stretch the numbers over all shades; equal ones get the middle."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    share = np.full_like(values, 0.5) if high == low else (values - low) / (high - low)
    shades: Array = np.where(
        np.isnan(values), np.nan, _SHADES[0] + share * (_SHADES[1] - _SHADES[0])
    )
    return shades
