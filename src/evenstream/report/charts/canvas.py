"""The canvas for charts, and its conversion for an HTML page."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenstream.extras import require
from evenstream.report.charts.style import LIGHT, Colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Size = tuple[int, int]
"""Width and height in CSS pixels."""

Draw = Callable[["Axes", Colours], None]

_FONT = 11.0
_SETTINGS: dict[str, Any] = {
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
}
# Colours that occur nowhere else; after drawing, each becomes a reference to a CSS variable.
_PLACEHOLDERS = {name: f"#fe01{i:02x}" for i, name in enumerate(LIGHT)}


@dataclass(frozen=True)
class Margins:
    """The space around the axes in CSS pixels."""

    left: float = 48
    right: float = 14
    top: float = 10
    bottom: float = 42


MARGINS = Margins()
"""The margins of a chart with labels on the left and below."""


@contextlib.contextmanager
def settings(**extra: str) -> Iterator[None]:
    """Draw with matplotlib's defaults and ours, whatever the user has configured."""
    require("matplotlib", "report", "Drawing charts")
    import matplotlib
    import matplotlib.style

    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name may use a script that the font lacks; a box in its place is no reason to fail.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.style.use("default")
        ours: Any = {**_SETTINGS, **extra}
        matplotlib.rcParams.update(ours)
        yield


def new_figure(size: Size, colours: Colours, dpi: int = 72) -> Figure:
    """Return an empty figure with the background of a card."""
    from matplotlib.figure import Figure

    width, height = size
    return Figure(figsize=(width / 72, height / 72), dpi=dpi, facecolor=colours["surface"])


def add_axes(figure: Figure, size: Size, margins: Margins, colours: Colours) -> Axes:
    """Add quiet axes: horizontal grid lines, and a line at the bottom only."""
    width, height = size
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


def draw_svg(size: Size, salt: str, draw: Draw, margins: Margins = MARGINS) -> str:
    """Return a chart as an SVG element whose colours are CSS variables of the page.

    Args:
        size: size of the chart.
        salt: makes the ids in the SVG unique within the page.
        draw: draws on the axes in the given colours.
        margins: margins around the axes.
    """
    with settings(**{"svg.hashsalt": f"evenstream-{salt}"}):
        figure = new_figure(size, _PLACEHOLDERS)
        figure.patch.set_alpha(0)
        draw(add_axes(figure, size, margins, _PLACEHOLDERS), _PLACEHOLDERS)
        buffer = io.StringIO()
        keys = ("Creator", "Date", "Format", "Type")
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(keys), transparent=False)
    width, height = size
    body = _inline(buffer.getvalue(), salt)
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n{body}\n</svg>'


def _inline(svg: str, salt: str) -> str:
    """Adapt the content of matplotlib's SVG file for an HTML page."""
    body = svg[svg.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.S)
    body = _rename_ids(body.replace("xlink:href=", "href="), salt)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", body)
    for name, placeholder in _PLACEHOLDERS.items():
        body = body.replace(placeholder, f"var(--{name})")
    return re.sub(r"\n\s*", "\n", body).strip()


def _rename_ids(body: str, salt: str) -> str:
    """Prefix all referenced ids with the salt, and drop the others to save space."""
    used = set(re.findall(r'href="#([^"]+)"', body)) | set(re.findall(r"url\(#([^)]+)\)", body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{salt}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{salt}-\1"', body)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{salt}-\1)", body)
