"""One picture of a stream: its classes over time, and what each task brings."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenstream.files import write_atomically
from evenstream.printable import printable
from evenstream.report.charts.canvas import Margins, add_axes, new_figure, settings
from evenstream.report.charts.style import DARK, LIGHT, Colours
from evenstream.report.charts.ticks import round_ticks, task_axis
from evenstream.report.formats import shorten
from evenstream.streams.profile import Profile, profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from evenstream.streams import Stream

_WIDTH = 900
_SAMPLES, _BINS = 30, 200
"""Minimum number of training samples per bin, and maximum number of bins."""
_ROWS = 200
"""Maximum number of rows in a heat map; with more classes, several share a row."""
_NAMED = 20
"""Up to this many classes, each has its name beside the heat map."""
_TITLE, _BELOW = 40, 52


def save_stream_png(stream: Stream, path: Path | str, *, dark: bool = False) -> Path:
    """Save the class frequencies over time, and the classes (and domains) of each task, as a PNG.

    The panels of single tasks are the paper's figures of iNaturalist's classes per task and of
    S-CIFAR100's subclasses per superclass.
    """
    path, drawn = Path(path), io.BytesIO()
    samples = sum(len(task.train) for task in stream.tasks)
    with settings():
        bins = max(1, min(_BINS, samples // _SAMPLES))
        figure = draw(stream, profile(stream, bins), DARK if dark else LIGHT)
        figure.savefig(drawn, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, drawn.getvalue())
    return path


def draw(stream: Stream, found: Profile, colours: Colours) -> Figure:
    """Draw the panels below each other."""
    per_class = found.domains_per_class
    heights = [280, 140] + ([260] if per_class is not None else [])
    size = (_WIDTH, sum(height + _TITLE + _BELOW for height in heights))
    figure = new_figure(size, colours, dpi=150)
    tops = np.cumsum([0, *heights[:-1]]) + (_TITLE + _BELOW) * np.arange(len(heights)) + _TITLE

    def panel(number: int, title: str) -> Axes:
        bottom = size[1] - tops[number] - heights[number]
        ax = add_axes(figure, size, Margins(120, 36, float(tops[number]), bottom), colours)
        shown = ax.set_title(
            printable(title), loc="left", color=colours["ink"], fontsize=13, pad=10
        )
        shown.set_parse_math(False)
        return ax

    told = "" if stream.boundaries else ", which the learner is not told"
    title = f"{stream.name}: share of each class over time (dashed: ends of tasks{told})"
    _over_time(panel(0, title), found, colours)
    _classes(panel(1, "Classes in each task; dark: not seen before"), found, colours)
    if per_class is not None:
        ax = panel(2, "Domains of each class in each task")
        _domains(ax, per_class, found.class_names, colours)
    return figure


def _over_time(ax: Axes, found: Profile, colours: Colours) -> None:
    """Draw time from left to right, a row for each class, darker where it is more frequent."""
    counts = found.over_time
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    n_classes = share.shape[1]
    if n_classes > _ROWS:
        firsts = np.linspace(0, n_classes, _ROWS, endpoint=False).astype(np.int64)
        share = np.add.reduceat(share, firsts, axis=1)
    last = int(found.edges[-1])
    ax.imshow(
        share.T, cmap=_shades(colours), aspect="auto", interpolation="nearest", vmin=0,
        extent=(0, last, n_classes - 0.5, -0.5),
    )  # fmt: skip
    for end in found.task_ends[:-1]:
        ax.axvline(end, color=colours["muted"], linewidth=0.8, linestyle=(0, (4, 3)))
    ax.grid(False)
    ax.set_xlabel("Training samples seen")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _class_axis(ax, found.class_names)


def _classes(ax: Axes, found: Profile, colours: Colours) -> None:
    """Draw how many classes each task has, and how many of them are new."""
    tasks = np.arange(1, len(found.in_task) + 1)
    ax.bar(tasks, found.classes_per_task, color=_shades(colours)(0.4), linewidth=0)
    ax.bar(tasks, found.new_classes_per_task, color=colours["heat"], linewidth=0)
    ax.set_xlim(0.4, len(tasks) + 0.6)
    task_axis(ax, len(tasks), _WIDTH)
    round_ticks(ax.yaxis, 4)
    ax.set_xlabel("Task")
    ax.set_ylabel("Classes")


def _domains(ax: Axes, per_class: NDArray[Any], names: Sequence[str], colours: Colours) -> None:
    """Draw how many domains of each class a task has."""
    n_tasks, n_classes = per_class.shape
    ax.imshow(
        per_class.T, cmap=_shades(colours), aspect="auto", interpolation="nearest", vmin=0,
        extent=(0.5, n_tasks + 0.5, n_classes - 0.5, -0.5),
    )  # fmt: skip
    for task, index in zip(*np.nonzero(per_class), strict=True):
        count = per_class[task, index]
        ink = colours["cell-high" if count > 0.6 * per_class.max() else "cell-low"]
        ax.text(task + 1, index, str(count), ha="center", va="center", fontsize=8, color=ink)
    ax.grid(False)
    task_axis(ax, n_tasks, _WIDTH)
    ax.set_xlabel("Task")
    _class_axis(ax, names)


def _class_axis(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows, or number them where there is no room for names."""
    if len(names) <= _NAMED:
        shown = [shorten(printable(name), 15) for name in names]
        ax.set_yticks(range(len(names)), shown, parse_math=False)
    else:
        round_ticks(ax.yaxis, 6)
        ax.set_ylabel("Class")


def _shades(colours: Colours) -> Colormap:
    """A colour map from the background of the picture to the colour of heat maps."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("heat", [colours["surface"], colours["heat"]])
