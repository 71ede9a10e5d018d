"""The sections with charts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenstream.measures import AREA
from evenstream.report.chart_pieces import (
    NARROW,
    WIDE,
    figure,
    number_table,
    share_parts,
    two_sizes,
)
from evenstream.report.charts.bars import share_fits
from evenstream.report.charts.heatmap import matrix_size, matrix_svg
from evenstream.report.charts.lines import accuracy_svg, online_svg, seconds_svg
from evenstream.report.charts.strip import classes_per_column, strip_svg
from evenstream.report.comparison.content import Content
from evenstream.report.formats import common, plain
from evenstream.report.html import escape, labelled, lines, scroll
from evenstream.report.legend import legend, method_label
from evenstream.report.series import Series

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
    columns = [(s.name, s.accuracy) for s in series]
    table = number_table(columns, "Average accuracy after each task, in %.")
    return _section(
        "accuracy", "Accuracy after each task", caption,
        legend(final, "After the last task"), charts + table,
    )  # fmt: skip


def online(content: Content) -> str:
    """Show the online accuracy over the steps."""
    series = [s for s in content.series if len(s.steps)]
    if not series:
        return ""
    measured = common(run.metrics.online.statement for run in content.finished)
    several = any(len(s.seeds) > 1 for s in series)
    band = " The band is one standard deviation over seeds." if several else ""
    caption = (
        "Accuracy on the test samples of all classes observed so far, measured during training "
        f"{escape(measured)}. A<sub>AUC</sub> is the area under the line.{band}"
    )
    means = [content.summary[s.name].mean(AREA.name) for s in series]
    areas = [(s, f"{plain(m.mean)} %" if m else "–") for s, m in zip(series, means, strict=True)]
    label = (
        "Line chart of online accuracy over training steps. Area under the curve: "
        f"{', '.join(f'{s.name} {area}' for s, area in areas)}."
    )
    charts = two_sizes(lambda size, salt: online_svg(series, size, salt), "online", label)
    key = legend(areas, "A_AUC")
    return _section("online", "Accuracy while learning", caption, key, charts)


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
            for kind, (width, _) in (("wide", WIDE), ("narrow", NARROW))
        )
        strips.append(f'<div class="strip"><h3>{method_label(s)}</h3>{svgs}</div>')
    table = ""
    if len(classes) <= _NAMED_CLASSES:
        columns = [(s.name, s.recall) for s in series]
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
    if least > NARROW[0]:
        scale += '\n<p class="narrow quiet">Swipe a map sideways to see all tasks.</p>'
    content = f'<div class="maps" style="--map:{width}px">\n{lines(maps)}\n</div>'
    tall = len(maps) > 1 or width > WIDE[0]
    return _section("matrices", "Accuracy on every task", caption, scale, content, tall=tall)


def _map(series: Series, style: str) -> str:
    """Return the heat map of one method, which scrolls where it does not fit."""
    last = ", ".join(plain(v) for v in series.matrix[-1])
    label = f"Heat map of the accuracy of {series.name}. Last row, tasks in order: {last} percent."
    svg = labelled(matrix_svg(series, f"matrix{series.index}"), label, style)
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
    key, content = share_parts(series)
    tall = not share_fits(series, WIDE[0])
    return _section("shares", "Where the predictions go", caption, key, content, tall=tall)


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
    """Return a card with a chart in it."""
    chart = figure(name, title, caption, key, content, kind="tall" if tall else "")
    return f'<section class="card" aria-labelledby="{name}">\n{chart}\n</section>'
