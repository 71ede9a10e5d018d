"""Charts for wide and for narrow screens, and the numbers behind them as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenstream.report.charts.bars import share_fits, share_svg, share_top
from evenstream.report.charts.canvas import Size
from evenstream.report.formats import plain
from evenstream.report.html import details, escape, labelled, lines, scroll
from evenstream.report.legend import method_label
from evenstream.report.series import Array, Series

WIDE, NARROW, PANEL = (720, 340), (340, 280), (340, 180)


def two_sizes(draw: Callable[[Size, str], str], name: str, label: str) -> str:
    """Return a chart for wide and one for narrow screens; the style sheet shows one of them."""
    return "\n".join(
        f'<div class="{kind}">{labelled(draw(size, f"{name}-{kind}"), label)}</div>'
        for kind, size in (("wide", WIDE), ("narrow", NARROW))
    )


def number_table(
    columns: Sequence[tuple[str, Array]],
    caption: str,
    of: str = "Task",
    names: Sequence[str] | None = None,
) -> str:
    """Return the numbers of a chart, one row for each task, or for each class by name."""
    heads = "".join(f'<th scope="col">{name}</th>' for name, _ in columns)
    names = names or [str(n + 1) for n in range(len(columns[0][1]))]
    rows = [
        f'<tr><th scope="row">{escape(name)}</th>'
        f"{''.join(f'<td>{plain(v)}</td>' for v in values)}</tr>"
        for name, *values in zip(names, *(c for _, c in columns), strict=True)
    ]
    table = (
        f"<table><caption>{caption}</caption><thead><tr><th scope='col'>{of}</th>{heads}</tr>"
        f"</thead><tbody>\n{lines(rows)}\n</tbody></table>"
    )
    return details("Show the numbers", scroll(table, caption))


def share_charts(series: Sequence[Series], label: str, salt: str = "share") -> str:
    """Return the bars of all methods in one chart where they fit, else a chart for each."""
    top = share_top(series)

    def grouped(size: Size, kind: str) -> str:
        svg = share_svg(series, size, f"{salt}-{kind}", top)
        return f'<div class="{kind}">{labelled(svg, label)}</div>'

    if not share_fits(series, WIDE[0]):
        return _share_panels(series, top, "panels", salt)
    if not share_fits(series, NARROW[0]):
        return grouped(WIDE, "wide") + _share_panels(series, top, "panels narrow", salt)
    return grouped(WIDE, "wide") + grouped(NARROW, "narrow")


def _share_panels(series: Sequence[Series], top: float, kind: str, salt: str) -> str:
    """Return a small chart for each method, all with the same axis."""
    boxes = []
    for s in series:
        svg = share_svg([s], PANEL, f"{salt}{s.index}", top)
        svg = labelled(svg, f"Bar chart of predictions per task by {s.name}.")
        boxes.append(f"<div><h3>{method_label(s)}</h3>{svg}</div>")
    return f'<div class="{kind}">\n{lines(boxes)}\n</div>'
