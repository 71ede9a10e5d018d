"""Which colour and marker belongs to which method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from evenstream.report.charts.style import Drawn, colour, dashes, marker
from evenstream.report.html import breakable, escape, lines

_SHAPES = {
    "o": "M10 6a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "s": "M10.4 2.4h7.2v7.2h-7.2z",
    "^": "M14 1.6l4.6 8h-9.2z",
    "D": "M14 1.4l4.6 4.6l-4.6 4.6l-4.6 -4.6z",
    "v": "M14 10.4l4.6 -8h-9.2z",
    "P": "M12.4 1.6h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8v-3.2h2.8z",
    "X": "M11.6 1.4l2.4 2.4l2.4 -2.4l2.2 2.2l-2.4 2.4l2.4 2.4l-2.2 2.2l-2.4 -2.4l-2.4 2.4"
    "l-2.2 -2.2l2.4 -2.4l-2.4 -2.4z",
    "p": "M14 1.6l4.6 3.4l-1.8 5.2h-5.6l-1.8 -5.2z",
}


@dataclass(frozen=True)
class Method:
    """A method's name, and its place for colour and marker."""

    name: str
    index: int


class Named(Drawn, Protocol):
    """A method, or whatever else a chart shows several of."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...


def method_label(series: Named) -> str:
    """Return a method's name with its line and marker before it."""
    return f'<span class="method">{_swatch(series)}{breakable(series.name)}</span>'


def legend(entries: Iterable[tuple[Named, str]], heading: str, extra: str = "") -> str:
    """Return the methods with a number each, under a heading that says what it is."""
    items = [_item(_swatch(s), breakable(s.name), escape(value)) for s, value in entries]
    return (
        f'<p class="key">{escape(heading)}</p>\n<ul class="legend">\n{lines(items)}{extra}\n</ul>'
    )


def truth_item(value: str) -> str:
    """Return the legend's entry for the dashed line of the true share."""
    line = _line("var(--ink)", "1.6", (4, 3))
    return _item(_drawing(line), "true share", value)


def _item(swatch: str, name: str, value: str) -> str:
    """Return one line of a legend."""
    return (
        f'<li><span class="method">{swatch}<span>{name}</span></span>'
        f'<span class="value">{value}</span></li>'
    )


def _swatch(series: Drawn) -> str:
    """Draw a method's line and marker."""
    ink = f"var(--{colour(series)})"
    shape = f'<path d="{_SHAPES[marker(series)]}" style="fill:{ink}"/>'
    return _drawing(_line(ink, "2", dashes(series)) + shape)


def _line(ink: str, width: str, pattern: tuple[float, ...]) -> str:
    """Draw a line across a swatch."""
    dash = f";stroke-dasharray:{' '.join(f'{d:g}' for d in pattern)}" if pattern else ""
    return f'<path d="M1 6H27" style="stroke:{ink};stroke-width:{width}{dash}"/>'


def _drawing(content: str) -> str:
    """Wrap the shapes of a swatch, which says nothing that the name does not."""
    return f'<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true">{content}</svg>'
