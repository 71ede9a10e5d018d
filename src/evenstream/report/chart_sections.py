"""The sections with charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenstream.report.charts.bars import share_fits, share_svg, share_top
from evenstream.report.charts.canvas import Size
from evenstream.report.charts.heatmap import matrix_size, matrix_svg
from evenstream.report.charts.lines import accuracy_svg, online_svg, seconds_svg
from evenstream.report.charts.strip import classes_per_column, strip_svg
from evenstream.report.formats import common, plain
from evenstream.report.html import breakable, details, escape, labelled, lines, scroll
from evenstream.report.legend import legend, method_label, truth_item
from evenstream.report.measures import AREA
from evenstream.report.runs import Run, number
from evenstream.report.series import Array, Series

_WIDE, _NARROW, _PANEL = (720, 340), (340, 280), (340, 180)
_NAMED_CLASSES = 200  # beyond, the recall of each class is in metrics.json only


def accuracy(series: Sequence[Series]) -> str:
    """Show average accuracy after each task."""
    several = any(len(s.seeds) > 1 for s in series)
    band = "; the band is one standard deviation over seeds" if several else ""
    caption = (
        "Each point is the accuracy averaged over all tasks learned so far; a line that falls "
        f"slowly has learned new tasks without losing the old ones{band}."
    )
    final = [(s, f"{plain(s.accuracy[-1])} %") for s in series]
    label = (
        "Line chart of average accuracy after each task. After the last task: "
        f"{', '.join(f'{s.name} {value}' for s, value in final)}."
    )
    charts = two_sizes(lambda size, salt: accuracy_svg(series, size, salt), "accuracy", label)
    columns = [(breakable(s.name), s.accuracy) for s in series]
    table = number_table(columns, "Average accuracy after each task, in %.")
    return _section(
        "accuracy", "Accuracy after each task", caption,
        legend(final, "After the last task"), charts + table,
    )  # fmt: skip


def online(series: Sequence[Series], runs: Sequence[Run]) -> str:
    """Show the online accuracy over the steps."""
    if not series:
        return ""
    measured = common(run.online.get("statement") for run in runs)
    several = any(len(s.seeds) > 1 for s in series)
    band = " The band is one standard deviation over seeds." if several else ""
    caption = (
        "Accuracy on the test samples of all classes observed so far, measured during training "
        f"{escape(measured)}. A<sub>AUC</sub> is the area under the line.{band}"
    )
    areas = [(s, _area(s, runs)) for s in series]
    label = (
        "Line chart of online accuracy over training steps. Area under the curve: "
        f"{', '.join(f'{s.name} {area}' for s, area in areas)}."
    )
    charts = two_sizes(lambda size, salt: online_svg(series, size, salt), "online", label)
    key = legend(areas, "A_AUC")
    return _section("online", "Accuracy while learning", caption, key, charts)


def _area(series: Series, runs: Sequence[Run]) -> str:
    """Return the mean A_AUC of a method."""
    found = [number(run.metrics.get(AREA.key)) for run in runs if run.method == series.name]
    known = [value for value in found if value is not None]
    return f"{plain(sum(known) / len(known))} %" if known else "–"


def recalls(series: Sequence[Series], classes: Sequence[str]) -> str:
    """Show how many samples of each class are recognised at the end."""
    if not series or not classes:
        return ""
    each = classes_per_column(len(classes))
    shared = f" Each column is the mean of {each} neighbours." if each > 1 else ""
    caption = (
        "Each column is a class, in the order of the data set; the stronger the colour, the more "
        f"of its test samples the finished model recognises.{shared}"
    )
    lowest = [(s, f"{plain(float(np.nanmin(s.recall)))} %") for s in series]
    strips = []
    for s in series:
        label = f"Recall of each class by {s.name}; the lowest is {plain(np.nanmin(s.recall))} %."
        svgs = "".join(
            f'<div class="{kind}">'
            f"{labelled(strip_svg(s.recall, width, f'recall{s.index}-{kind}'), label)}</div>"
            for kind, (width, _) in (("wide", _WIDE), ("narrow", _NARROW))
        )
        strips.append(f'<div class="strip"><h3>{method_label(s)}</h3>{svgs}</div>')
    table = ""
    if len(classes) <= _NAMED_CLASSES:
        columns = [(breakable(s.name), s.recall) for s in series]
        table = number_table(columns, "Recall of each class, in %.", "Class", list(classes))
    scale = '<p class="scale" aria-hidden="true">0 %<i></i>100 %</p>'
    key = legend(lowest, "Lowest recall of a class") + scale
    return _section("recalls", "Recall of each class", caption, key, lines(strips) + table)


def matrices(series: Sequence[Series]) -> str:
    """Show the accuracy matrix of each method as a heat map."""
    n = series[0].n_tasks
    width, _ = matrix_size(n)
    least = min(width, max(300, n * 24 + 50)) if n <= 25 else min(width, 480)
    style = f"width:max({least}px,min({round(1.25 * width)}px,100%))"
    maps = [_map(s, style) for s in series]
    caption = (
        "Read a column from top to bottom to follow one task: its first number is the accuracy "
        "right after learning it, and numbers that shrink further down show forgetting."
    )
    scale = '<p class="scale" aria-hidden="true">0 %<i></i>100 %</p>'
    if least > _NARROW[0]:
        scale += '\n<p class="narrow quiet">Swipe a map sideways to see all tasks.</p>'
    content = f'<div class="maps" style="--map:{width}px">\n{lines(maps)}\n</div>'
    tall = len(maps) > 1 or width > _WIDE[0]
    return _section("matrices", "Accuracy on every task", caption, scale, content, tall=tall)


def _map(series: Series, style: str) -> str:
    """Return the heat map of one method, which scrolls where it does not fit."""
    last = ", ".join(plain(v) for v in series.matrix[-1])
    label = f"Heat map of the accuracy of {series.name}. Last row, tasks in order: {last} percent."
    svg = labelled(matrix_svg(series, f"matrix{series.index}"), label)
    svg = svg.replace("<svg ", f'<svg style="{style}" ', 1)
    region = scroll(svg, f"Accuracy matrix of {series.name}")
    return f'<div class="map"><h3>{method_label(series)}</h3>{region}</div>'


def shares(series: Sequence[Series]) -> str:
    """Show to which tasks the predictions go."""
    if not series:
        return ""
    caption = (
        "Bars show how many test samples the finished model assigns to the classes of each task, "
        "and the dashed line how many really belong there; a last bar far above the line means "
        "the model favours what it learned last."
    )
    final = [(s, f"{plain(100 * s.share[-1])} %") for s in series]
    truth = 100 * series[0].truth
    value = "" if np.isnan(truth[-1]) else f"{plain(truth[-1])} %"
    label = (
        f"Bar chart of predictions per task. Share on the last task"
        f"{f' (true share {value})' if value else ''}: "
        f"{', '.join(f'{s.name} {share}' for s, share in final)}."
    )
    columns = [(breakable(s.name), 100 * s.share) for s in series]
    if not np.isnan(truth).all():
        columns.append(("true share", truth))
    table = number_table(columns, "Share of predictions on each task's classes, in %.")
    return _section(
        "shares", "Where the predictions go", caption,
        legend(final, "Share on the last task", truth_item(value)),
        share_charts(series, label) + table, tall=not share_fits(series, _WIDE[0]),
    )  # fmt: skip


def share_charts(series: Sequence[Series], label: str, salt: str = "share") -> str:
    """Return the bars of all methods in one chart where they fit, else a chart for each."""
    top = share_top(series)

    def grouped(size: Size, kind: str) -> str:
        svg = share_svg(series, size, f"{salt}-{kind}", top)
        return f'<div class="{kind}">{labelled(svg, label)}</div>'

    if not share_fits(series, _WIDE[0]):
        return _share_panels(series, top, "panels", salt)
    if not share_fits(series, _NARROW[0]):
        return grouped(_WIDE, "wide") + _share_panels(series, top, "panels narrow", salt)
    return grouped(_WIDE, "wide") + grouped(_NARROW, "narrow")


def _share_panels(series: Sequence[Series], top: float, kind: str, salt: str) -> str:
    """Return a small chart for each method, all with the same axis."""
    boxes = []
    for s in series:
        svg = share_svg([s], _PANEL, f"{salt}{s.index}", top)
        svg = labelled(svg, f"Bar chart of predictions per task by {s.name}.")
        boxes.append(f"<div><h3>{method_label(s)}</h3>{svg}</div>")
    return f'<div class="{kind}">\n{lines(boxes)}\n</div>'


def seconds(series: Sequence[Series]) -> str:
    """Show average accuracy against training time."""
    if not series:
        return ""
    caption = (
        "Each dot is the end of a task and the large marker the end of training: a marker further "
        "up is more accurate, one further left took less time."
    )
    last = ", ".join(
        f"{s.name} {plain(s.accuracy[-1])} % after {plain(s.seconds[-1])} seconds" for s in series
    )
    label = f"Average accuracy against training time. At the end: {last}."
    charts = two_sizes(lambda size, salt: seconds_svg(series, size, salt), "seconds", label)
    final = [(s, f"{plain(s.seconds[-1])} s") for s in series]
    title = "Accuracy against training time"
    return _section("seconds", title, caption, legend(final, "Training time in all"), charts)


def _section(
    name: str, title: str, caption: str, key: str, content: str, *, tall: bool = False
) -> str:
    """Return a card with caption and key on the left, or on top if the content is tall."""
    return f"""<section class="card" aria-labelledby="{name}">
<figure class="chart{" tall" if tall else ""}">
<figcaption><h2 id="{name}">{title}</h2>
<p>{caption}</p>
{key}</figcaption>
<div>
{content}
</div>
</figure>
</section>"""


def two_sizes(draw: Callable[[Size, str], str], name: str, label: str) -> str:
    """Return a chart for wide and one for narrow screens; the style sheet shows one of them."""
    return "\n".join(
        f'<div class="{kind}">{labelled(draw(size, f"{name}-{kind}"), label)}</div>'
        for kind, size in (("wide", _WIDE), ("narrow", _NARROW))
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
