"""Charts for wide and for narrow screens, and the numbers behind them as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenstream.report.charts.bars import share_fits, share_svg, share_top
from evenstream.report.charts.canvas import Size
from evenstream.report.formats import plain
from evenstream.report.html import Marked, breakable, details, labelled, lines, scroll
from evenstream.report.html_table import html_table
from evenstream.report.legend import legend, method_label, truth_item
from evenstream.report.series import Array, Series
from evenstream.report.table import Column, Table

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
    names = names or [str(n + 1) for n in range(len(columns[0][1]))]
    table = Table(
        "",
        caption,
        (Column(of, head=True), *(Column(Marked(name, breakable(name))) for name, _ in columns)),
        tuple(
            (name, *map(plain, values))
            for name, *values in zip(names, *(c for _, c in columns), strict=True)
        ),
        kind="plain",
    )
    return details("Show the numbers", scroll(html_table(table), caption))


def figure(
    name: str, title: str, caption: str, key: str, content: str, level: str = "h2", kind: str = ""
) -> str:
    """Return a chart with caption and key on the left, or on top if it is of the kind "tall"."""
    return f"""<figure class="chart{kind and f" {kind}"}" aria-labelledby="{name}">
<figcaption><{level} id="{name}">{title}</{level}>
<p>{caption}</p>
{key}</figcaption>
<div>
{content}
</div>
</figure>"""


def share_parts(series: Sequence[Series], salt: str = "share") -> tuple[str, str]:
    """Return the key and the charts of where predictions go, with their numbers."""
    final = [(s, f"{plain(100 * s.share[-1])} %") for s in series]
    truth = 100 * series[0].truth
    value = "" if np.isnan(truth[-1]) else f"{plain(truth[-1])} %"
    label = (
        f"Bar chart of predictions per task. Share on the last task"
        f"{f' (true share {value})' if value else ''}: "
        f"{', '.join(f'{s.name} {share}' for s, share in final)}."
    )
    columns = [(s.name, 100 * s.share) for s in series]
    if not np.isnan(truth).all():
        columns.append(("true share", truth))
    table = number_table(columns, "Share of predictions on each task's classes, in %.")
    key = legend(final, "Share on the last task", truth_item(value) if value else "")
    return key, _share_charts(series, label, salt) + table


def _share_charts(series: Sequence[Series], label: str, salt: str) -> str:
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
