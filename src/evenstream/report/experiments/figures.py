"""The figures of an outcome. Which there are follows from what the experiment reports and varies.

- two numeric keys that vary: heat maps over both (the paper's sensitivity to tau and l);
- accuracy and training time: one against the other (its contrastive methods);
- training time alone: bars;
- the share of predictions: bars for each task, with the true share;
- the accuracy matrix: the accuracy on each task after the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenstream.errors import count
from evenstream.report.chart_pieces import figure, number_table, share_parts, two_sizes
from evenstream.report.charts.bars import method_bars_svg
from evenstream.report.charts.lines import last_row_svg
from evenstream.report.charts.trade_off import Line, trade_off_svg
from evenstream.report.charts.value_map import value_map_size, value_map_svg
from evenstream.report.experiments.outcome import Measured, Outcome, Seeds
from evenstream.report.experiments.wording import key_words, scale_words, varying_keys
from evenstream.report.formats import plain
from evenstream.report.html import escape, labelled, lines, scroll
from evenstream.report.legend import Method, legend
from evenstream.report.runs import Run
from evenstream.report.series import Series, collect
from evenstream.run.metrics_file import Metrics
from evenstream.sweep.experiment import Cell, Value
from evenstream.text import OptionKey


def figures(outcome: Outcome) -> str:
    """All figures of an outcome, as HTML."""
    found = []
    for scale, cells in outcome.cells.items():
        measured = [each for each in outcome.measured if each.scale == scale]
        words = scale_words(outcome, scale)
        for number, parts in enumerate(_at(outcome, cells, measured, scale)):
            title, caption, key, content = parts
            caption = f"{caption} <strong>At scale {escape(words)}.</strong>"
            name = f"{outcome.experiment.name}-{scale}-{number}"
            found.append(figure(f"figure-{name}", escape(title), caption, key, content, "h3"))
    return lines(found)


_Parts = tuple[str, str, str, str]
"""Title, caption, key and content of a figure."""


def _at(
    outcome: Outcome, cells: Mapping[Cell, Seeds], measured: Sequence[Measured], scale: str
) -> Iterator[_Parts]:
    metrics = outcome.experiment.metrics
    salt = f"{outcome.experiment.name}-{scale}"
    yield from _maps(outcome, measured, salt)
    times = {each.cell: each.interval.mean for each in measured if each.metric.name == _SECONDS}
    if times and "A_T" in metrics:
        yield from _trade_off(measured, times, salt)
    elif times:
        yield from _time_bars(outcome, measured, salt)
    if "prediction_share" in metrics:
        yield from _shares(cells, salt)
    if "accuracy_matrix" in metrics:
        yield from _last_rows(cells, salt)


_SECONDS = "train_seconds"


# ---- heat maps -------------------------------------------------------------------------------


def _maps(outcome: Outcome, measured: Sequence[Measured], salt: str) -> Iterator[_Parts]:
    """Heat maps, if exactly two keys vary and both are numbers."""
    if not measured:
        return
    varying, _ = varying_keys(each.cell for each in measured)
    if len(varying) != 2 or not all(_numeric(each.cell[k]) for each in measured for k in varying):
        return
    down, across = sorted(varying, key=lambda key: key not in outcome.experiment.rows)
    rows, columns = (_values(measured, key) for key in (down, across))
    maps: list[str] = []
    for metric in dict.fromkeys(each.metric for each in measured if not each.metric.timing):
        found = {(each.cell[down], each.cell[across]): each.interval.mean
                 for each in measured if each.metric == metric}  # fmt: skip
        values = np.array([[found.get((r, c), np.nan) for c in columns] for r in rows])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        best = ""
        if metric.ranks:
            up = 1 if metric.better == "higher" else -1
            place = max(found, key=lambda place: up * found[place])
            best = f"best at {_short(down)} {place[0]}, {_short(across)} {place[1]}"
        label = f"Heat map of {metric.name} from {plain(low)} to {plain(high)}; {best}"
        svg = value_map_svg(
            values, ([str(v) for v in rows], [str(v) for v in columns]),
            (_short(down), _short(across)), f"{salt}-map{len(maps)}",
        )  # fmt: skip
        width, _ = value_map_size(len(rows), len(columns))
        svg = labelled(svg, label, f"width:{width}px")
        title = f"{metric.name}, {metric.words}{best and f': {best}'}"
        maps.append(f'<div class="map"><h4>{escape(title)}</h4>{scroll(svg, metric.name)}</div>')
    caption = (
        f"Each cell is a pair of {escape(_short(down))} and {escape(_short(across))}, in the mean "
        "over its seeds; the stronger the colour, the higher the number, from the lowest to the "
        "highest of a map."
    )
    yield "Sensitivity", caption, "", f'<div class="maps" style="--map:360px">{lines(maps)}</div>'


def _numeric(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(measured: Sequence[Measured], key: str) -> list[Value]:
    return sorted({each.cell[key] for each in measured}, key=lambda value: float(value))


def _short(key: str) -> str:
    name = OptionKey.read(key).short
    return "window l" if key == "method:window" else name


# ---- time ------------------------------------------------------------------------------------


def _trade_off(
    measured: Sequence[Measured], times: Mapping[Cell, float], salt: str
) -> Iterator[_Parts]:
    """A figure for each stream and every other setting that is not a number; lines join numbers."""
    accurate = [each for each in measured if each.metric.name == "A_T" and each.cell in times]
    methods = _methods(each.cell for each in accurate)
    groups: dict[tuple[tuple[str, Value], ...], list[Measured]] = {}
    for each in accurate:
        named = tuple((key, v) for key, v in _but_method(each.cell) if not _numeric(v))
        groups.setdefault(named, []).append(each)
    for number, group in enumerate(groups.values()):
        if len(group) > 1:
            yield _trade_off_of(group, methods, times, f"{salt}-trade{number}")


def _trade_off_of(
    group: Sequence[Measured], methods: Sequence[Method], times: Mapping[Cell, float], name: str
) -> _Parts:
    varying, fixed = varying_keys(each.cell for each in group)
    others = [key for key in varying if key != "method"]
    drawn = []
    for method in methods:
        own = [each for each in group if each.cell["method"] == method.name]
        own.sort(key=lambda each: times[each.cell])
        if not own:
            continue
        drawn.append(
            Line(
                method.name, method.index,
                np.array([times[each.cell] for each in own]),
                np.array([each.interval.mean for each in own]),
                np.array([np.nan if each.interval.std is None else each.interval.std
                          for each in own]),
                tuple("/".join(str(each.cell[key]) for key in others) for each in own),
            )
        )  # fmt: skip
    caption = "Further up is more accurate, further left took less time."
    if others:
        caption += f" At each point: {escape(', '.join(_short(key) for key in others))}."
    ends = ", ".join(
        f"{line.name} {plain(y)} % after {plain(x)} seconds"
        for line in drawn
        for x, y in zip(line.seconds, line.accuracy, strict=True)
    )
    charts = two_sizes(
        lambda size, name: trade_off_svg(drawn, size, name), name, f"Points: {ends}."
    )
    best = [(line, f"{plain(float(line.accuracy.max()))} %") for line in drawn]
    title = f"Accuracy against training time{_group(fixed)}"
    return title, caption, legend(best, "Highest accuracy"), charts


def _time_bars(outcome: Outcome, measured: Sequence[Measured], salt: str) -> Iterator[_Parts]:
    ratios = {(e.cell, e.scale): e for e in measured if e.metric.name == f"{_SECONDS}_ratio"}
    timed = [each for each in measured if each.metric.name == _SECONDS]
    for number, (fixed, group) in enumerate(_groups(timed)):
        values = [
            (method, each)
            for method, each in zip(_methods(e.cell for e in group), group, strict=True)
        ]
        entries = []
        for method, each in values:
            text = f"{plain(each.interval.mean)} s"
            ratio = ratios.get((each.cell, each.scale))
            if ratio is not None:
                text += f", {plain(ratio.interval.mean, 2)} ×"
                stated = " or ".join(plain(s.mean, s.decimals) for s in ratio.stated)
                text += f" ({outcome.background.by}: {stated} ×)" if stated else ""
            entries.append((method, text))
        label = f"Bars: {', '.join(f'{method.name} {text}' for method, text in entries)}."
        bars = [(method, each.interval.mean) for method, each in values]
        charts = two_sizes(
            lambda size, name, bars=bars: method_bars_svg(  # type: ignore[misc]
                bars, "Training time (seconds)", size, name
            ),
            f"{salt}-time{number}",
            label,
        )
        caption = "Seconds of training, and how many times those of ER-LAS on the same machine."
        yield f"Training time{_group(fixed)}", caption, legend(entries, "Mean of a run"), charts


def _groups(measured: Sequence[Measured]) -> Iterator[tuple[dict[str, Value], list[Measured]]]:
    """Cells that differ in their method only, together, with what they have in common."""
    found: dict[tuple[tuple[str, Value], ...], list[Measured]] = {}
    for each in measured:
        found.setdefault(_but_method(each.cell), []).append(each)
    for keys, group in found.items():
        yield dict(keys), group


# ---- charts of whole runs --------------------------------------------------------------------


def _shares(cells: Mapping[Cell, Seeds], salt: str) -> Iterator[_Parts]:
    for number, (common, series) in enumerate(_series(cells)):
        known = [s for s in series if s.has_share]
        if known:
            caption = (
                "How many test samples the finished model assigns to the classes of each task; the "
                "dashed line is how many really belong there."
            )
            key, content = share_parts(known, f"{salt}-share{number}")
            yield f"Where predictions go{common}", caption, key, content


def _last_rows(cells: Mapping[Cell, Seeds], salt: str) -> Iterator[_Parts]:
    for number, (common, series) in enumerate(_series(cells)):
        final = [(s, f"{plain(s.matrix[-1, -1])} %") for s in series]
        label = (
            "Line chart of the accuracy on each task after the last one. On the last task: "
            f"{', '.join(f'{s.name} {value}' for s, value in final)}."
        )
        charts = two_sizes(
            lambda size, name, series=series: last_row_svg(series, size, name),  # type: ignore[misc]
            f"{salt}-tasks{number}",
            label,
        )
        columns = [(s.name, s.matrix[-1]) for s in series]
        charts += number_table(columns, "Accuracy on each task after the last one, in %.")
        caption = "Accuracy on each task at the end; the last one was learned most recently."
        key = legend(final, "On the last task")
        yield f"Accuracy on each task{common}", caption, key, charts


def _series(cells: Mapping[Cell, Seeds]) -> Iterator[tuple[str, list[Series]]]:
    """The runs of cells that differ only in their method, grouped by method.

    Methods may have been given different numbers of tasks, which no chart can show together: each
    number then has its own. With what is common to the runs, for the title.
    """
    found: dict[tuple[tuple[str, Value], ...], dict[int, list[Run]]] = {}
    for cell, seeds in cells.items():
        names = {key: str(cell[key]) for key in ("method", "stream")}
        for each in seeds.values():
            run = replace(each.run, metrics=Metrics({**each.run.metrics.entries, **names}))
            groups = found.setdefault(_but_method(cell), {})
            groups.setdefault(len(run.metrics.tasks), []).append(run)
    for keys, groups in found.items():
        for tasks, runs in groups.items():
            yield _group(dict(keys), count(tasks, "task") if len(groups) > 1 else ""), collect(runs)


def _but_method(cell: Cell) -> tuple[tuple[str, Value], ...]:
    return tuple((key, value) for key, value in cell.keys if key != "method")


def _methods(cells: Iterator[Cell]) -> list[Method]:
    names = dict.fromkeys(str(cell["method"]) for cell in cells)
    return [Method(name, index) for index, name in enumerate(names)]


def _group(fixed: Mapping[str, Value], further: str = "") -> str:
    """What the cells of a figure have in common, for its title."""
    words = [key_words(key, value) for key, value in fixed.items() if key != "method"]
    words += [further] if further else []
    return f": {', '.join(words)}" if words else ""
