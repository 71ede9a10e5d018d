"""One picture of a comparison, for a README or a slide."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenstream.errors import DataError
from evenstream.files import write_atomically
from evenstream.report.charts.bars import draw_share, share_top
from evenstream.report.charts.canvas import Margins, add_axes, new_figure, settings
from evenstream.report.charts.lines import draw_accuracy
from evenstream.report.charts.style import DARK, LIGHT, Colours, colour, line_style, marker
from evenstream.report.formats import shorten
from evenstream.report.runs import load_runs
from evenstream.report.series import Series, collect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 600
_TOP = 46


def save_overview_png(directory: Path | str, path: Path | str, *, dark: bool = False) -> Path:
    """Save accuracy after each task and share of predictions side by side as one PNG.

    Args:
        directory: a run or comparison directory with at least one finished run.
        path: the file to write.
        dark: draw light lines on a dark ground.

    Raises:
        DataError: there is no finished run.
    """
    series = collect(load_runs(directory))
    if not series:
        raise DataError(f"{directory} has no finished run yet, so there is nothing to draw")
    path, drawn = Path(path), io.BytesIO()
    with settings():
        figure = _draw(series, DARK if dark else LIGHT)
        figure.savefig(drawn, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, drawn.getvalue())
    return path


def _draw(series: Sequence[Series], colours: Colours) -> Figure:
    """Draw the panels next to each other and a legend below them."""
    shares = [s for s in series if s.has_share]
    panels = 2 if shares else 1
    names = [shorten(s.name, 48) for s in series]
    per_row = (_PANEL * panels - 40) // (max(map(len, names)) * 8 + 56)
    per_row = max(1, min(len(names) + 1, per_row))
    below = 62 + 22 * math.ceil((len(names) + 1) / per_row)
    size = (_PANEL * panels, 300 + _TOP + below)
    figure = new_figure(size, colours, dpi=150)

    def panel(column: int, title: str) -> Axes:
        left, right = _PANEL * column + 56, size[0] - _PANEL * (column + 1) + 20
        ax = add_axes(figure, size, Margins(left, right, _TOP, below), colours)
        ax.set_title(title, loc="left", color=colours["ink"], fontsize=13, pad=12)
        return ax

    ax = panel(0, "Average accuracy after each task (%)")
    draw_accuracy(ax, series, colours, _PANEL)
    if shares:
        ax = panel(1, "Where the predictions go at the end (% per task)")
        draw_share(ax, shares, colours, _PANEL, share_top(shares))
        names.append("true share")
    _legend(figure, series, names, per_row, colours)
    return figure


def _legend(
    figure: Figure, series: Sequence[Series], names: Sequence[str], per_row: int, colours: Colours
) -> None:
    """Name the lines; a name beyond the methods is that of the dashed line."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colours[colour(s)], marker=marker(s), linestyle=line_style(s))
        for s in series
    ]
    if len(names) > len(series):
        handles.append(Line2D([], [], color=colours["ink"], linestyle=(0, (4, 3))))
    legend = figure.legend(
        handles, names, loc="lower center", ncols=per_row, frameon=False, fontsize=12
    )
    for text in legend.get_texts():
        text.set_color(colours["ink"])
        text.set_parse_math(False)
