"""The charts of a report, as SVG that follows the page's colours or as PNG.

matplotlib is imported only when a chart is drawn, and only its figure objects are used: nothing
here touches pyplot or leaves a setting behind. No name from a run goes into an SVG; names are
written by the page, where they can wrap.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenstream.errors import DataError
from evenstream.report.runs import Array, Series, collect, load_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DARK",
    "LIGHT",
    "MARKERS",
    "METHOD_COLOURS",
    "accuracy_svg",
    "matrix_size",
    "matrix_svg",
    "save_charts_png",
    "save_overview_png",
    "seconds_svg",
    "share_fits",
    "share_svg",
    "share_top",
]

METHOD_COLOURS = 8
"""How many colours there are; a ninth method starts over with dashed lines."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
"""One marker for each colour, so that the lines can be told apart without seeing colours."""

LIGHT: dict[str, str] = {
    "ink": "#1b2430",
    "muted": "#566273",
    "grid": "#e3e7ee",
    "surface": "#ffffff",
    "heat": "#1b5e9e",
    "cell-low": "#1b2430",
    "cell-mid": "#0c1420",
    "cell-high": "#ffffff",
    "m0": "#0072b2",
    "m1": "#d55e00",
    "m2": "#00805c",
    "m3": "#b5468b",
    "m4": "#8a6a00",
    "m5": "#2a9fd8",
    "m6": "#6b7280",
    "m7": "#6a3fb5",
}
DARK: dict[str, str] = {
    "ink": "#e8ecf2",
    "muted": "#a3aebd",
    "grid": "#2c3542",
    "surface": "#171d26",
    "heat": "#79b8ff",
    "cell-low": "#ffffff",
    "cell-mid": "#0c1420",
    "cell-high": "#0c1420",
    "m0": "#4aa8e8",
    "m1": "#ff8f4a",
    "m2": "#3ecf9f",
    "m3": "#f09ccb",
    "m4": "#e3bf45",
    "m5": "#9bdcff",
    "m6": "#b4bcc8",
    "m7": "#b79cf7",
}
# Colours that occur nowhere else; after drawing, each becomes a reference to a CSS variable.
_PLACEHOLDERS = {name: f"#fe01{i:02x}" for i, name in enumerate(LIGHT)}

_FONT = 11.0
_CELL_MID, _CELL_HIGH = 0.58, 0.80  # opacities at which the ink of a heat map's numbers changes


@dataclass(frozen=True)
class _Margins:
    left: float = 48
    right: float = 14
    top: float = 10
    bottom: float = 42


def accuracy_svg(series: Sequence[Series], *, width: int, height: int, salt: str) -> str:
    """Return the lines of average accuracy after each task, with a band of one deviation."""
    return _draw_svg(width, height, salt, lambda ax, c: _accuracy(ax, series, c, width))


def seconds_svg(series: Sequence[Series], *, width: int, height: int, salt: str) -> str:
    """Return the average accuracy against the training seconds spent so far."""
    return _draw_svg(width, height, salt, lambda ax, c: _seconds(ax, series, c))


def share_svg(
    series: Sequence[Series], *, width: int, height: int, salt: str, top: float | None = None
) -> str:
    """Return bars for the share of predictions on each task, and the true share, dashed.

    Args:
        series: the methods.
        width: in CSS pixels.
        height: in CSS pixels.
        salt: makes the ids in the SVG unique within the page.
        top: the upper end of the axis in percent, to make several charts comparable.
    """
    return _draw_svg(
        width, height, salt, lambda ax, c: _share(ax, series, c, width, top, short=height < 240)
    )


def share_fits(series: Sequence[Series], width: int) -> bool:
    """Whether the bars of all methods side by side are wide enough to be told apart."""
    margins = _Margins()
    groups = series[0].n_tasks
    return (width - margins.left - margins.right) / (groups * (len(series) + 0.6)) >= 5


def matrix_size(n_tasks: int) -> tuple[int, int]:
    """Return the width and height in CSS pixels of a heat map for so many tasks."""
    margins = _matrix_margins()
    side = n_tasks * _cell(n_tasks)
    return (
        round(side + margins.left + margins.right),
        round(side + margins.top + margins.bottom),
    )


def matrix_svg(series: Series, *, salt: str) -> str:
    """Return the heat map of a mean accuracy matrix, with the numbers in the cells."""
    width, height = matrix_size(series.n_tasks)
    return _draw_svg(
        width, height, salt, lambda ax, c: _matrix(ax, series.matrix, c), _matrix_margins()
    )


def save_overview_png(directory: Path | str, path: Path | str, *, dark: bool = False) -> Path:
    """Save accuracy after each task and share of predictions side by side as one PNG.

    Args:
        directory: a run or comparison directory with at least one finished run.
        path: the file to write.
        dark: draw light lines on a dark ground.

    Raises:
        DataError: there is no finished run.
    """
    series = _finished(directory)
    known = [s for s in series if not np.isnan(s.share).all()]
    columns = 2 if known else 1
    width = 600 * columns
    colours = DARK if dark else LIGHT
    names = [_shorten(s.name) for s in series]
    per_row = max(1, min(len(names) + 1, (width - 40) // (max(map(len, names)) * 8 + 56)))
    rows = math.ceil((len(names) + 1) / per_row)
    top, bottom = 46, 62 + 22 * rows
    height = 300 + top + bottom
    with _settings():
        from matplotlib.lines import Line2D

        figure = _figure(width, height, colours, dpi=150)
        titles = ["Average accuracy after each task (%)"]
        titles += ["Where the predictions go at the end (% per task)"] if known else []
        for column, title in enumerate(titles):
            margins = _Margins(
                left=600 * column + 56,
                right=width - 600 * (column + 1) + 20,
                top=top,
                bottom=bottom,
            )
            ax = _axes(figure, width, height, margins, colours)
            ax.set_title(title, loc="left", color=colours["ink"], fontsize=13, pad=12)
            if column == 0:
                _accuracy(ax, series, colours, 600)
            else:
                _share(ax, known, colours, 600)
        handles = [
            Line2D([], [], color=_colour(s, colours), marker=_marker(s), linestyle=_dash(s))
            for s in series
        ]
        if known:
            handles.append(Line2D([], [], color=colours["ink"], linestyle=(0, (4, 3))))
            names.append("true share")
        legend = figure.legend(
            handles, names, loc="lower center", ncols=per_row, frameon=False, fontsize=12
        )
        for text in legend.get_texts():
            text.set_color(colours["ink"])
            text.set_parse_math(False)
        return _save_png(figure, Path(path))


def save_charts_png(directory: Path | str, folder: Path | str, *, dark: bool = False) -> list[Path]:
    """Save each chart of a report as a PNG of its own and return the files.

    The files are `accuracy.png`, `share.png`, `seconds.png` and `matrix-<n>.png`, where n counts
    the methods from 1; charts without data are left out.
    """
    series = _finished(directory)
    colours = DARK if dark else LIGHT
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[tuple[str, tuple[int, int], _Margins, _Draw]] = [
        ("accuracy", (720, 360), _Margins(), lambda ax, c: _accuracy(ax, series, c, 720))
    ]
    shares = [s for s in series if not np.isnan(s.share).all()]
    if shares:
        draw: _Draw = lambda ax, c: _share(ax, shares, c, 720)  # noqa: E731
        jobs.append(("share", (720, 360), _Margins(), draw))
    timed = [s for s in series if not np.isnan(s.seconds).all()]
    if timed:
        draw = lambda ax, c: _seconds(ax, timed, c)  # noqa: E731
        jobs.append(("seconds", (720, 360), _Margins(), draw))
    for s in series:
        draw = lambda ax, c, s=s: _matrix(ax, s.matrix, c)  # type: ignore[misc]  # noqa: E731
        name = f"matrix-{s.index + 1}"
        jobs.append((name, matrix_size(s.n_tasks), _matrix_margins(), draw))
    paths = []
    for name, (width, height), margins, draw in jobs:
        with _settings():
            figure = _figure(width, height, colours, dpi=150)
            draw(_axes(figure, width, height, margins, colours), colours)
            paths.append(_save_png(figure, folder / f"{name}.png"))
    return paths


# Drawing -------------------------------------------------------------------------------------

_Colours = Mapping[str, str]
_Draw = Callable[["Axes", _Colours], None]


def _accuracy(ax: Axes, series: Sequence[Series], colours: _Colours, width: float) -> None:
    n = series[0].n_tasks
    tasks = np.arange(1, n + 1)
    for s in series:
        colour = _colour(s, colours)
        if not np.isnan(s.accuracy_std).all():
            spread = np.nan_to_num(s.accuracy_std)
            low, high = s.accuracy - spread, s.accuracy + spread
            ax.fill_between(
                tasks, np.clip(low, 0, 100), np.clip(high, 0, 100),
                color=colour, alpha=0.15, linewidth=0,
            )  # fmt: skip
        ax.plot(
            tasks, s.accuracy, color=colour, linestyle=_dash(s), marker=_marker(s),
            markevery=math.ceil(n / (width / 14)), zorder=3,
        )  # fmt: skip
    ax.set_xlim(0.7, n + 0.3) if n > 1 else ax.set_xlim(0.5, 1.5)
    _percent_axis(ax, series)
    _task_ticks(ax, n, width)
    ax.set_xlabel("Tasks learned so far")
    ax.set_ylabel("Average accuracy (%)")


def _seconds(ax: Axes, series: Sequence[Series], colours: _Colours) -> None:
    for s in series:
        colour = _colour(s, colours)
        ax.plot(s.seconds, s.accuracy, color=colour, linestyle=_dash(s), linewidth=1.2, alpha=0.65)
        ax.plot(
            s.seconds[:-1],
            s.accuracy[:-1],
            color=colour,
            linestyle="none",
            marker="o",
            markersize=3.5,
        )
        ax.plot(
            s.seconds[-1:], s.accuracy[-1:], color=colour, linestyle="none",
            marker=_marker(s), markersize=9, zorder=4,
        )  # fmt: skip
    _percent_axis(ax, series)
    longest = float(np.nanmax([np.nanmax(s.seconds) for s in series]))
    ax.set_xlim(0, longest * 1.05 if longest > 0 else 1)
    ax.xaxis.set_major_locator(_locator(6))
    ax.set_xlabel("Training time so far (seconds)")
    ax.set_ylabel("Average accuracy (%)")


def _share(
    ax: Axes,
    series: Sequence[Series],
    colours: _Colours,
    width: float,
    top: float | None = None,
    *,
    short: bool = False,
) -> None:
    n = series[0].n_tasks
    tasks = np.arange(1, n + 1)
    bar = 1 / (len(series) + 0.6)
    for place, s in enumerate(series):
        offset = (place - (len(series) - 1) / 2) * bar
        ax.bar(
            tasks + offset, np.nan_to_num(100 * s.share), width=bar * 0.92,
            color=_colour(s, colours), linewidth=0,
        )  # fmt: skip
    truth = 100 * series[0].truth
    if not np.isnan(truth).all():
        edges = np.repeat(np.arange(0.5, n + 1), 2)[1:-1]
        ax.plot(
            edges, np.repeat(truth, 2), color=colours["ink"], linewidth=1.4,
            linestyle=(0, (4, 3)), zorder=4,
        )  # fmt: skip
    ax.set_xlim(0.45, n + 0.55)
    ax.set_ylim(0, top if top is not None else share_top(series))
    ax.yaxis.set_major_locator(_locator(5))
    _task_ticks(ax, n, width)
    ax.set_xlabel("Task that the predicted class belongs to")
    ax.set_ylabel("Share (%)" if short else "Share of predictions (%)")


def share_top(series: Sequence[Series]) -> float:
    """Return an upper end in percent that holds all shares, predicted and true."""
    values = np.concatenate([np.concatenate([s.share, s.truth]) for s in series])
    highest = 100 * float(np.nanmax(values))
    step = 20 if highest > 50 else 10 if highest > 20 else 5
    return float(min(100, step * math.ceil(highest * 1.02 / step)))


def _matrix(ax: Axes, matrix: Array, colours: _Colours) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    n = len(matrix)
    cell = _cell(n)
    digits, size = (1, min(12, 0.32 * cell)) if cell >= 32 else (0, 0.36 * cell)
    gap = 0.03 if cell >= 20 else 0.0
    # Cells of one shade are drawn as one path: a page with many tasks stays small.
    shades: dict[float, list[tuple[int, int]]] = {}
    for i, j in zip(*np.nonzero(~np.isnan(matrix)), strict=True):
        shades.setdefault(_opacity(float(matrix[i, j])), []).append((int(i), int(j)))
    for opacity, cells in sorted(shades.items()):
        boxes = []
        for i, j in cells:
            x0, x1, y0, y1 = j - 0.5 + gap, j + 0.5 - gap, i - 0.5 + gap, i + 0.5 - gap
            corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
            boxes.append(Outline(corners, closed=True))
        ax.add_patch(
            PathPatch(
                Outline.make_compound_path(*boxes), facecolor=colours["heat"], alpha=opacity,
                linewidth=0,
            )
        )  # fmt: skip
        if cell < 20:
            continue
        ink = "cell-low" if opacity < _CELL_MID else "cell-mid" if opacity < _CELL_HIGH else ""
        for i, j in cells:
            ax.text(
                j, i, f"{matrix[i, j]:.{digits}f}", ha="center", va="center",
                fontsize=size, color=colours[ink or "cell-high"],
            )  # fmt: skip
    ax.set_xlim(-0.5, n - 0.5)
    ax.set_ylim(n - 0.5, -0.5)
    ax.grid(False)
    step = _step(n, 20 / cell)
    places = [p for p in range(n) if (p + 1) % step == 0 or (p == 0 and step != 2)]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(places, [str(p + 1) for p in places])
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, pad=3)
    ax.spines["bottom"].set_visible(False)
    ax.set_xlabel("Tested on task")
    ax.set_ylabel("After learning task")


def _opacity(percent: float) -> float:
    """Return the shade of a percentage, in steps too small to see."""
    return round(0.05 + 0.95 * round(percent / 100 * 40) / 40, 4)


def _cell(n_tasks: int) -> float:
    """Return the side of a heat map's cell in CSS pixels."""
    for limit, side in ((5, 54.0), (7, 46.0), (12, 36.0), (25, 27.0), (45, 14.0)):
        if n_tasks <= limit:
            return side
    return 620 / n_tasks


def _matrix_margins() -> _Margins:
    return _Margins(left=44, right=6, top=40, bottom=6)


def _percent_axis(ax: Axes, series: Sequence[Series]) -> None:
    values = np.concatenate([s.accuracy for s in series])
    spread = np.concatenate([np.nan_to_num(s.accuracy_std) for s in series])
    known = ~np.isnan(values)
    low, high = 0.0, 100.0
    if known.any():
        low = float((values - spread)[known].min())
        high = float((values + spread)[known].max())
    low = max(0, 10 * math.floor((low - 2) / 10))
    high = min(100, 10 * math.ceil((high + 1) / 10))
    room = (high - low) * 0.03
    ax.set_ylim(low - (room if low == 0 else 0), high + room)
    ax.set_yticks(
        range(int(low), int(high) + 1, 5 if high - low <= 20 else 10 if high - low <= 60 else 20)
    )


def _task_ticks(ax: Axes, n: int, width: float) -> None:
    step = _step(n, 24 / ((width - 62) / n))
    ax.set_xticks([t for t in range(1, n + 1) if t % step == 0 or (t == 1 and step != 2)])


def _step(n: int, least: float) -> int:
    """Return the smallest round step between labels that leaves them room."""
    return next((step for step in (1, 2, 5, 10, 20, 50) if step >= least), n)


def _locator(bins: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=bins, steps=[1, 2, 2.5, 5, 10])


def _colour(series: Series, colours: _Colours) -> str:
    return colours[f"m{series.index % METHOD_COLOURS}"]


def _marker(series: Series) -> str:
    return MARKERS[series.index % METHOD_COLOURS]


def _dash(series: Series) -> Any:
    """Return a line style: solid for the first eight methods, then dashed, then dotted."""
    return ("-", (0, (5, 2)), (0, (1.5, 1.5)))[series.index // METHOD_COLOURS % 3]


# Canvas --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _settings(**extra: str) -> Iterator[None]:
    """Draw with matplotlib's defaults and ours, whatever the user has configured."""
    import matplotlib
    import matplotlib.style

    ours: Any = {
        "font.family": ["DejaVu Sans"],
        "font.size": _FONT,
        "axes.labelsize": _FONT,
        "xtick.labelsize": _FONT,
        "ytick.labelsize": _FONT,
        "axes.axisbelow": True,
        "lines.linewidth": 2.0,
        "lines.markersize": 5.5,
        "svg.fonttype": "none",
        "axes.unicode_minus": True,
        **extra,
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name may use a script that the font lacks; a box in its place is no reason to fail.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.style.use("default")
        matplotlib.rcParams.update(ours)
        yield


def _figure(width: float, height: float, colours: _Colours, dpi: int = 72) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), dpi=dpi, facecolor=colours["surface"])


def _axes(
    figure: Figure, width: float, height: float, margins: _Margins, colours: _Colours
) -> Axes:
    ax = figure.add_axes(
        (
            margins.left / width,
            margins.bottom / height,
            (width - margins.left - margins.right) / width,
            (height - margins.top - margins.bottom) / height,
        ),
        facecolor="none",
    )
    ax.grid(True, axis="y", color=colours["grid"], linewidth=1)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(colours["grid"])
    ax.tick_params(length=0, pad=6, labelcolor=colours["muted"])
    ax.xaxis.label.set_color(colours["muted"])
    ax.yaxis.label.set_color(colours["muted"])
    return ax


def _draw_svg(
    width: int, height: int, salt: str, draw: _Draw, margins: _Margins | None = None
) -> str:
    with _settings(**{"svg.hashsalt": f"evenstream-{salt}"}):
        figure = _figure(width, height, _PLACEHOLDERS)
        figure.patch.set_alpha(0)
        draw(_axes(figure, width, height, margins or _Margins(), _PLACEHOLDERS), _PLACEHOLDERS)
        buffer = io.StringIO()
        keys = ("Creator", "Date", "Format", "Type")
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(keys), transparent=False)
    return _inline(buffer.getvalue(), width, height, salt)


def _inline(svg: str, width: int, height: int, salt: str) -> str:
    """Turn matplotlib's SVG file into an element for an HTML page."""
    body = svg[svg.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r' id="([^"]+)"', rf' id="{salt}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{salt}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{salt}-\1)", body)
    # Unused ids only cost room; those of glyphs, markers and clips are referred to.
    used = set(re.findall(r'href="#([^"]+)"', body)) | set(re.findall(r"url\(#([^)]+)\)", body))
    body = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", body)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", body)
    for name, placeholder in _PLACEHOLDERS.items():
        body = body.replace(placeholder, f"var(--{name})")
    body = re.sub(r"\n\s*", "\n", body).strip()
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n{body}\n</svg>'


def _save_png(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})
    return path


def _finished(directory: Path | str) -> list[Series]:
    series = collect(load_runs(directory))
    if not series:
        raise DataError(f"{directory} holds no finished run; there is nothing to draw yet")
    return series


def _shorten(name: str, limit: int = 48) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"
