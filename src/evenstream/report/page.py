"""The report page: one HTML file with everything in it."""

from __future__ import annotations

import html
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from evenstream import __version__
from evenstream.errors import EvenstreamError
from evenstream.report import figures
from evenstream.report.runs import Array, Run, Series, collect, load_runs
from evenstream.report.summary import (
    format_interval,
    format_spread,
    seconds_digits,
    summarise,
    verdict,
)

__all__ = ["write_report"]

_WIDE, _NARROW = (720, 340), (340, 280)
_PANEL = (340, 180)
_SPELT = 3  # pairs of methods beyond which only those with the first method are spelt out


def write_report(directory: Path | str, output: Path | str | None = None) -> Path:
    """Write the report of a run or a comparison as one HTML file and return its path.

    The page holds its styles and charts, has no scripts and loads nothing from anywhere. Runs
    that have not finished are named on it. The same runs give the same bytes.

    Args:
        directory: a run directory, or a comparison directory with `runs/<method>/seed-<s>/`.
        output: the file to write, or a directory to write `report.html` to; by default the
            directory of the runs.

    Raises:
        EvenstreamError: there is no run in the directory, its runs cannot be compared, or the
            file cannot be written.
    """
    directory = Path(directory)
    runs = load_runs(directory)
    page = _page(directory, runs)
    path = directory if output is None else Path(output)
    if path.is_dir():
        path = path / "report.html"
    try:
        _replace(path, page)
    except OSError as error:
        raise EvenstreamError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _replace(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)  # mkstemp makes files that only the owner can read
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class _Data:
    directory: Path
    runs: Sequence[Run]
    finished: Sequence[Run]
    series: Sequence[Series]
    summary: Mapping[str, Any]


def _page(directory: Path, runs: Sequence[Run]) -> str:
    series = collect(runs)
    finished = [run for run in runs if run.finished]
    data = _Data(directory, runs, finished, series, summarise(run.metrics for run in finished))
    title = _title(data)
    sections = [_unfinished(data)]
    if series:
        sections += [
            _results(data),
            _accuracy(data),
            _matrices(data),
            _shares(data),
            _seconds(data),
        ]
    sections.append(_setup(data))
    body = "\n".join(section for section in sections if section)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="evenstream {_e(__version__)}">
<link rel="icon" href="data:,">
<title>{_e(title)} · evenstream</title>
<style>
{_palette()}
{resources.files("evenstream.report").joinpath("page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
{_header(data, title)}
<main>
{body}
</main>
<footer>Made with evenstream {_e(__version__)}. This page is a single file: it has no scripts and
loads nothing from the network.</footer>
</body>
</html>
"""


# Sections ------------------------------------------------------------------------------------


def _title(data: _Data) -> str:
    streams = sorted({str(run.metrics["stream"]) for run in data.runs if "stream" in run.metrics})
    stream = ", ".join(streams) or data.directory.resolve().name
    names = [s.name for s in data.series] or list(dict.fromkeys(r.method for r in data.runs))
    if len(names) == 1:
        return f"{names[0]} on {stream}"
    return f"{len(names)} methods on {stream}"


def _header(data: _Data, title: str) -> str:
    facts = "\n".join(
        f"<div{' class=span' if span else ''}><dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>"
        for name, value, span in _facts(data)
        if value
    )
    return f"""<header class="top"><div>
<p class="eyebrow">evenstream report</p>
<h1>{_breakable(title)}</h1>
<p class="lead">{_lead(data)}</p>
<dl class="facts">
{facts}
</dl>
</div></header>"""


def _lead(data: _Data) -> str:
    methods = data.summary["methods"]
    if not methods:
        return "No run has finished yet, so there are no results to show."
    if len(methods) == 1:
        ((name, entry),) = methods.items()
        text = (
            f"{_code(name)} ended with an average accuracy of <strong>"
            f"<span class=nowrap>{_spread(entry['A_T'])} %</span></strong> over all tasks"
            f"{_over(entry['seeds'])}"
        )
        if entry["F_T"]["mean"] is None:
            return f"{text}."
        loss = entry["F_T"]["mean"]
        if loss < 0:
            return f"{text} and forgot nothing: earlier tasks improved by {-loss:.1f} points."
        return f"{text} and forgot {loss:.1f} points of its best accuracy on earlier tasks."
    ranked = sorted(methods, key=lambda name: -methods[name]["A_T"]["mean"])
    best, second = ranked[:2]
    text = (
        f"{_code(best)} ended with the highest average accuracy: <strong>"
        f"<span class=nowrap>{_spread(methods[best]['A_T'])} %</span></strong>"
        f"{_over(methods[best]['seeds'])}."
    )
    pair = _pair(data.summary, best, second)
    if pair is None:
        return f"{text} Next is {_code(second)}, run on other seeds."
    if pair["low"] is None:
        return f"{text} With one shared seed, its lead over {_code(second)} could be luck."
    if pair["low"] > 0:
        return (
            f"{text} It leads the next, {_code(second)}, by {pair['mean']:.1f} points "
            f"(95&nbsp;% interval {pair['low']:.1f} to {pair['high']:.1f})."
        )
    return f"{text} Its lead over the next, {_code(second)}, is too small to be sure of."


def _facts(data: _Data) -> Iterable[tuple[str, str, bool]]:
    runs = data.finished or [run for run in data.runs if run.metrics]
    metrics = [run.metrics for run in runs]
    envs = [run.env for run in runs or data.runs]
    yield "Stream", _common(m.get("stream") for m in metrics), False
    if metrics and isinstance(metrics[0].get("tasks"), list):
        tasks = metrics[0]["tasks"]
        names = {str(c) for task in tasks if isinstance(task, list) for c in task}
        yield "Tasks", f"{_count(len(tasks), 'task')}, {_count(len(names), 'class')}", False
    seeds = sorted({run.seed for run in runs if isinstance(run.seed, int)})
    yield "Seeds", _ranges(seeds), False
    yield (
        "Data per run",
        _common(
            f"{m['samples']:,} samples in {m['steps']:,} steps"
            for m in metrics
            if isinstance(m.get("samples"), int) and isinstance(m.get("steps"), int)
        ),
        False,
    )
    yield (
        "Computed on",
        _common(
            ", ".join(
                str(part)
                for part in (
                    m.get("device"),
                    _count(m["threads"], "thread") if isinstance(m.get("threads"), int) else None,
                    m.get("dtype"),
                )
                if part is not None
            )
            for m in metrics
        ),
        False,
    )
    yield "Processor", _common(env.get("cpu") for env in envs), False
    yield (
        "Software",
        ", ".join(
            f"{label} {value}"
            for label, key in (("evenstream", "evenstream"), ("Python", "python"), ("torch",) * 2)
            if (value := _common(env.get(key) for env in envs))
        ),
        True,
    )
    yield "Commit", _common(str(env["commit"])[:12] for env in envs if env.get("commit")), False


def _unfinished(data: _Data) -> str:
    left = [run for run in data.runs if not run.finished]
    if not left:
        return ""
    items = []
    for run in left:
        what = run.problem or f"{run.status}"
        if run.tasks_done:
            total = run.metrics.get("tasks")
            of = f" of {len(total)}" if isinstance(total, list) else ""
            what += f", {run.tasks_done}{of} tasks measured"
            average = run.metrics.get("average_accuracy")
            last = average[-1] if isinstance(average, list) and average else None
            if isinstance(last, int | float):
                what += f", average accuracy so far {last:.1f} %"
        items.append(f"<li>{_code(run.method)}, seed {_e(run.seed)}: {_e(what)}</li>")
    return f"""<section class="card warn" aria-labelledby="unfinished">
<h2 id="unfinished">{_count(len(left), "run")} not in the results</h2>
<ul>
{chr(10).join(items)}
</ul>
</section>"""


def _results(data: _Data) -> str:
    methods = data.summary["methods"]
    best = max(methods, key=lambda name: methods[name]["A_T"]["mean"])
    rows = []
    for s in data.series:
        entry = methods[s.name]
        top = len(methods) > 1 and s.name == best
        badge = '<span class="badge">highest</span>' if top else ""
        cells = (
            ("Final accuracy", f"{_spread(entry['A_T'])}"),
            ("Forgetting", _spread(entry["F_T"])),
            ("Seeds", str(len(entry["seeds"]))),
            ("Training seconds", _spread(entry["train_seconds"], seconds_digits(entry))),
        )
        body = "".join(
            f'<td role="cell" data-label="{label}"><span class="nowrap">{value}</span></td>'
            for label, value in cells
        )
        head = f'<th role="rowheader" scope="row">{_method(s)}{badge}</th>'
        rows.append(f'<tr role="row"{" class=best" if top else ""}>{head}{body}</tr>')
    several = any(len(entry["seeds"]) > 1 for entry in methods.values())
    note = (
        " The number after ± is the sample standard deviation over seeds: about how far one "
        "seed lands from the mean."
        if several
        else ""
    )
    return f"""<section class="card" aria-labelledby="results">
<h2 id="results">Results</h2>
<table class="stack" role="table">
<caption>{"Mean over seeds, after the last task." if several else "After the last task."}</caption>
<thead role="rowgroup"><tr role="row">
<th role="columnheader" scope="col">Method</th>
<th role="columnheader" scope="col">Final accuracy, A<sub>T</sub>
<small>%, higher is better</small></th>
<th role="columnheader" scope="col">Forgetting, F<sub>T</sub>
<small>points, lower is better</small></th>
<th role="columnheader" scope="col">Seeds</th>
<th role="columnheader" scope="col">Training time<small>seconds</small></th>
</tr></thead>
<tbody role="rowgroup">
{chr(10).join(rows)}
</tbody>
</table>
<p class="quiet">Final accuracy is the share of test samples classified correctly at the end,
averaged over all tasks. Forgetting is how far the accuracy on earlier tasks fell from its best,
in percentage points.{note}</p>
{_differences(data)}
</section>"""


def _differences(data: _Data) -> str:
    pairs = data.summary["differences"]
    if not pairs:
        return ""
    first = data.series[0].name
    spelt = pairs if len(pairs) <= _SPELT else [p for p in pairs if p["baseline"] == first]
    items = "\n".join(f"<li>{_sentence(pair)}</li>" for pair in spelt)
    parts = [
        '<div class="differences">',
        "<h3>Is the difference real, or luck with the seeds?</h3>",
        f"<ul>\n{items}\n</ul>",
        '<p class="quiet">Methods are compared seed by seed on the same data. The interval is the '
        "range in which the true average difference plausibly lies: were the experiment repeated "
        "many times, 95 of 100 such intervals would hold it. If it leaves out zero, luck with the "
        "seeds is an unlikely explanation; if it includes zero, more seeds are needed to tell."
        + (
            f" There are {len(pairs)} comparisons here; expect about one in twenty to look clear "
            "by chance alone."
            if len(pairs) > _SPELT
            else ""
        )
        + "</p>",
    ]
    if len(pairs) > 1:
        rows = "\n".join(
            f'<tr><th scope="row">{_code(p["method"])} minus {_code(p["baseline"])}</th>'
            f'<td class="nowrap">{_e(format_interval(p["A_T"]))}</td>'
            f'<td class="nowrap">{_e(format_interval(p["F_T"]))}</td>'
            f'<td>{len(p["seeds"])}</td><td class="words">{_e(verdict(p["A_T"]))}</td></tr>'
            for p in pairs
        )
        head = (
            '<th scope="col">Pair</th><th scope="col">Accuracy</th><th scope="col">Forgetting</th>'
            '<th scope="col">Seeds</th><th scope="col" class="words">In words</th>'
        )
        parts.append(
            _details(
                f"All {len(pairs)} paired differences",
                _scroll(
                    "<table><caption>Mean difference in points [95 % interval].</caption>"
                    f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>",
                    "Paired differences",
                ),
            )
        )
    parts.append("</div>")
    return "\n".join(parts)


def _accuracy(data: _Data) -> str:
    several = any(len(s.seeds) > 1 for s in data.series)
    band = "; the band is one standard deviation over seeds" if several else ""
    caption = (
        "Each point is the accuracy averaged over all tasks learned so far; a line that falls "
        f"slowly has learned new tasks without losing the old ones{band}."
    )
    final = ", ".join(f"{s.name} {_number(s.accuracy[-1])} %" for s in data.series)
    label = f"Line chart of average accuracy after each task. After the last task: {final}."
    charts = _two_sizes(
        lambda size, salt: figures.accuracy_svg(
            data.series, width=size[0], height=size[1], salt=salt
        ),
        "accuracy",
        label,
    )
    table = _numbers_table(
        data.series, [s.accuracy for s in data.series], "Average accuracy after each task, in %."
    )
    return _chart(
        "accuracy", "Accuracy after each task", caption, charts + table,
        _legend((s, f"{_number(s.accuracy[-1])} %") for s in data.series),
    )  # fmt: skip


def _matrices(data: _Data) -> str:
    width, _ = figures.matrix_size(data.series[0].n_tasks)
    n = data.series[0].n_tasks
    least = min(width, max(300, n * 24 + 50)) if n <= 25 else min(width, 480)
    maps = []
    for s in data.series:
        last = ", ".join(_number(v) for v in s.matrix[-1])
        label = f"Heat map of the accuracy of {s.name}. Last row, tasks in order: {last} percent."
        svg = _label(figures.matrix_svg(s, salt=f"matrix{s.index}"), label)
        size = f"width:max({least}px,min({round(1.25 * width)}px,100%))"
        svg = svg.replace("<svg ", f'<svg style="{size}" ', 1)
        heading = f"<h3>{_method(s)}</h3>"
        region = _scroll(svg, f"Accuracy matrix of {s.name}")
        maps.append(f'<div class="map">{heading}{region}</div>')
    caption = (
        "Read a column from top to bottom to follow one task: its first number is the accuracy "
        "right after learning it, and numbers that shrink further down show forgetting."
    )
    scale = '<p class="scale" aria-hidden="true">0 %<i></i>100 %</p>'
    if least > _NARROW[0]:
        scale += '\n<p class="narrow quiet">Swipe a map sideways to see all tasks.</p>'
    return _chart(
        "matrices",
        "Accuracy on every task",
        caption,
        f'<div class="maps" style="--map:{width}px">\n{chr(10).join(maps)}\n</div>',
        scale,
        tall=len(maps) > 1 or width > _WIDE[0],
    )


def _shares(data: _Data) -> str:
    series = [s for s in data.series if not np.isnan(s.share).all()]
    if not series:
        return ""
    caption = (
        "Bars show how many test samples the finished model assigns to the classes of each task, "
        "and the dashed line how many really belong there; a last bar far above the line means "
        "the model favours what it learned last."
    )
    last = ", ".join(f"{s.name} {_number(100 * s.share[-1])} %" for s in series)
    truth = 100 * series[0].truth[-1]
    known = "" if np.isnan(truth) else f" (true share {_number(truth)} %)"
    label = f"Bar chart of predictions per task. Share on the last task{known}: {last}."
    top = figures.share_top(series)

    def grouped(size: tuple[int, int], salt: str, kind: str) -> str:
        svg = figures.share_svg(series, width=size[0], height=size[1], salt=salt)
        return f'<div class="{kind}">{_label(svg, label)}</div>'

    def panels(kind: str) -> str:
        boxes = []
        for s in series:
            svg = figures.share_svg(
                [s], width=_PANEL[0], height=_PANEL[1], salt=f"share{s.index}", top=top
            )
            alone = f"Bar chart of predictions per task by {s.name}."
            boxes.append(f"<div><h3>{_method(s)}</h3>{_label(svg, alone)}</div>")
        return f'<div class="panels {kind}">\n{chr(10).join(boxes)}\n</div>'

    wide, narrow = (figures.share_fits(series, size[0]) for size in (_WIDE, _NARROW))
    if not wide:
        charts = panels("")
    else:
        charts = grouped(_WIDE, "share-wide", "wide")
        charts += grouped(_NARROW, "share-narrow", "narrow") if narrow else panels("narrow")
    charts += _numbers_table(
        series,
        [100 * s.share for s in series],
        "Share of predictions on each task's classes, in %.",
        truth=None if np.isnan(series[0].truth).all() else 100 * series[0].truth,
    )
    dashes = (
        '<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true"><path d="M1 6H27" '
        'style="stroke:var(--ink);stroke-width:1.6;stroke-dasharray:4 3"/></svg>'
    )
    value = "" if np.isnan(truth) else f"{_number(truth)} %"
    extra = (
        f'<li><span class="method">{dashes}<span>true share</span></span>'
        f'<span class="value">{value}</span></li>'
    )
    legend = _legend(
        ((s, f"{_number(100 * s.share[-1])} %") for s in series),
        extra=extra,
        heading="Share on the last task",
    )
    return _chart("shares", "Where the predictions go", caption, charts, legend, tall=not wide)


def _seconds(data: _Data) -> str:
    series = [s for s in data.series if not np.isnan(s.seconds).all()]
    if not series:
        return ""
    caption = (
        "Each dot is the end of a task and the large marker the end of training: a marker further "
        "up is more accurate, one further left took less time."
    )
    last = ", ".join(
        f"{s.name} {_number(s.accuracy[-1])} % after {_number(s.seconds[-1])} seconds"
        for s in series
    )
    charts = _two_sizes(
        lambda size, salt: figures.seconds_svg(series, width=size[0], height=size[1], salt=salt),
        "seconds",
        f"Average accuracy against training time. At the end: {last}.",
    )
    legend = _legend(
        ((s, f"{_number(s.seconds[-1])} s") for s in series), heading="Training time in all"
    )
    return _chart("seconds", "Accuracy against training time", caption, charts, legend)


def _setup(data: _Data) -> str:
    parts = []
    tasks = [run.metrics["tasks"] for run in data.finished]
    if tasks and all(task == tasks[0] for task in tasks):
        items = "".join(
            f"<li>{_e(', '.join(map(str, task)) if isinstance(task, list) else task)}</li>"
            for task in tasks[0]
        )
        parts.append(_details("Classes of each task", f'<ol class="classes">{items}</ol>'))
    elif tasks:
        parts.append('<p class="quiet">The classes of the tasks differ between seeds.</p>')
    shown: dict[str, Run] = {}
    for run in [*data.finished, *data.runs]:
        if run.config:
            shown.setdefault(run.method, run)
    if shown:
        files = "\n".join(
            f"<h3>{_code(name)}, seed {_e(run.seed)}</h3><pre tabindex=0>{_e(run.config)}</pre>"
            for name, run in shown.items()
        )
        parts.append(_details("Configuration of each method", files))
    keys = list(dict.fromkeys(key for run in data.runs for key in run.env))
    if keys:
        rows = "".join(
            f'<tr><th scope="row">{_e(key)}</th><td class="words">'
            f"{_e(_common(run.env.get(key) for run in data.runs))}</td></tr>"
            for key in keys
        )
        table = f"<table><caption>From env.json.</caption><tbody>{rows}</tbody></table>"
        parts.append(_details("Software and machine", _scroll(table, "Software and machine")))
    if not parts:
        return ""
    return f"""<section class="card" aria-labelledby="setup">
<h2 id="setup">How it was run</h2>
{chr(10).join(parts)}
</section>"""


# Building blocks -----------------------------------------------------------------------------


def _chart(
    name: str, title: str, caption: str, content: str, legend: str, *, tall: bool = False
) -> str:
    return f"""<section class="card" aria-labelledby="{name}">
<figure class="chart{" tall" if tall else ""}">
<figcaption><h2 id="{name}">{title}</h2>
<p>{caption}</p>
{legend}</figcaption>
<div>
{content}
</div>
</figure>
</section>"""


def _two_sizes(draw: Any, name: str, label: str) -> str:
    return "\n".join(
        f'<div class="{kind}">{_label(draw(size, f"{name}-{kind}"), label)}</div>'
        for kind, size in (("wide", _WIDE), ("narrow", _NARROW))
    )


def _label(svg: str, label: str) -> str:
    return svg.replace("<svg ", f'<svg class="plot" role="img" aria-label="{_e(label)}" ', 1)


def _legend(
    entries: Iterable[tuple[Series, str]], *, extra: str = "", heading: str = "After the last task"
) -> str:
    items = "\n".join(
        f'<li><span class="method">{_swatch(s)}<span>{_breakable(s.name)}</span></span>'
        f'<span class="value">{_e(value)}</span></li>'
        for s, value in entries
    )
    return f'<p class="key">{_e(heading)}</p>\n<ul class="legend">\n{items}{extra}\n</ul>'


def _numbers_table(
    series: Sequence[Series], columns: Sequence[Array], caption: str, truth: Array | None = None
) -> str:
    heads = "".join(f'<th scope="col">{_breakable(s.name)}</th>' for s in series)
    rows = []
    for task in range(series[0].n_tasks):
        cells = "".join(f"<td>{_number(column[task])}</td>" for column in columns)
        if truth is not None:
            cells += f"<td>{_number(truth[task])}</td>"
        rows.append(f'<tr><th scope="row">{task + 1}</th>{cells}</tr>')
    if truth is not None:
        heads += '<th scope="col">true share</th>'
    table = (
        f"<table><caption>{caption}</caption><thead><tr><th scope='col'>Task</th>{heads}</tr>"
        f"</thead><tbody>\n{chr(10).join(rows)}\n</tbody></table>"
    )
    return _details("Show the numbers", _scroll(table, caption))


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{_e(summary)}</summary>\n{content}\n</details>"


def _scroll(content: str, label: str) -> str:
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{_e(label)}">{content}</div>'
    )


def _method(series: Series) -> str:
    return f'<span class="method">{_swatch(series)}{_breakable(series.name)}</span>'


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


def _swatch(series: Series) -> str:
    colour = f"var(--m{series.index % figures.METHOD_COLOURS})"
    shape = _SHAPES[figures.MARKERS[series.index % figures.METHOD_COLOURS]]
    dash = ("", ";stroke-dasharray:5 2", ";stroke-dasharray:1.5 1.5")
    style = f"stroke:{colour};stroke-width:2{dash[series.index // figures.METHOD_COLOURS % 3]}"
    return (
        f'<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true"><path d="M1 6H27" '
        f'style="{style}"/><path d="{shape}" style="fill:{colour}"/></svg>'
    )


def _palette() -> str:
    def variables(colours: Mapping[str, str]) -> str:
        return " ".join(f"--{name}: {value};" for name, value in colours.items())

    return (
        f":root {{ {variables(figures.LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(figures.DARK)} }} }}"
    )


# Words ---------------------------------------------------------------------------------------


def _sentence(pair: Mapping[str, Any]) -> str:
    method, baseline = _code(pair["method"]), _code(pair["baseline"])
    accuracy, loss = pair["A_T"], pair["F_T"]
    if accuracy is None:
        return f"{method} and {baseline} have no final accuracy on a shared seed."
    points = f"{abs(accuracy['mean']):.1f} points"
    higher = accuracy["mean"] >= 0
    if accuracy["low"] is None:
        text = (
            f"{method} ended {points} {'above' if higher else 'below'} {baseline} on the one seed "
            "they share, which cannot show how much of that is luck"
        )
    elif verdict(accuracy) == "no clear difference":
        text = (
            f"<strong>No clear difference</strong> in accuracy between {method} and {baseline}: "
            f"{_signed(accuracy['mean'])} points on average (95&nbsp;% interval "
            f"{_span(accuracy)}, {_count(accuracy['n'], 'seed')})"
        )
    else:
        text = (
            f"{method} is <strong>{'more' if higher else 'less'} accurate</strong> than "
            f"{baseline}, by {points} on average (95&nbsp;% interval "
            f"{_span(accuracy, flip=not higher)}, {_count(accuracy['n'], 'seed')})"
        )
    if loss is None:
        return f"{text}."
    less = loss["mean"] < 0
    amount = f"{abs(loss['mean']):.1f} points {'less' if less else 'more'}"
    if loss["low"] is None:
        return f"{text}; {method} forgot {amount}."
    if loss["low"] <= 0 <= loss["high"]:
        return (
            f"{text}; no clear difference in forgetting: {_signed(loss['mean'])} points "
            f"({_span(loss)})."
        )
    return f"{text}; {method} forgets {amount} ({_span(loss, flip=less)})."


def _span(interval: Mapping[str, Any], *, flip: bool = False) -> str:
    """Return "low to high"; flipped, of the negated interval, to go with words such as "less"."""
    low, high = interval["low"], interval["high"]
    if low <= 0 <= high:
        return f"{_signed(low)} to {_signed(high)}"
    ends = sorted((abs(low), abs(high))) if flip else (low, high)
    return " to ".join(_signed(end, plus=False) for end in ends)


def _pair(summary: Mapping[str, Any], a: str, b: str) -> dict[str, float | None] | None:
    """Return the difference in A_T between two methods, whichever came first."""
    for pair in summary["differences"]:
        found = pair["A_T"]
        if found is None:
            continue
        if (pair["method"], pair["baseline"]) == (a, b):
            return {key: found[key] for key in ("mean", "low", "high")}
        if (pair["method"], pair["baseline"]) == (b, a):
            low, high = found["low"], found["high"]
            return {
                "mean": -found["mean"],
                "low": None if high is None else -high,
                "high": None if low is None else -low,
            }
    return None


def _over(seeds: Sequence[int]) -> str:
    return f" over {len(seeds)} seeds" if len(seeds) > 1 else ""


def _spread(spread: Mapping[str, Any], digits: int = 1) -> str:
    if spread["mean"] is None:
        return "–"
    mean = format_spread({**spread, "std": None}, digits)
    if spread["std"] is None:
        return mean
    return f'{mean} <span class="pm">± {spread["std"]:.{digits}f}</span>'


def _number(value: float) -> str:
    return "–" if np.isnan(value) else _signed(float(value), plus=False)


def _signed(value: float, *, plus: bool = True) -> str:
    text = f"{abs(value):.1f}"
    if float(text) == 0:
        return text
    return f"−{text}" if value < 0 else f"+{text}" if plus else text


def _count(n: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"


def _common(values: Iterable[object]) -> str:
    """Return the value if all runs agree, else up to three of them."""
    found = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    if len(found) > 3:
        return f"differs between runs ({found[0]}, …)"
    return " / ".join(found)


def _ranges(numbers: Sequence[int]) -> str:
    """Return sorted whole numbers in short: 0–4, 7."""
    groups: list[list[int]] = []
    for n in numbers:
        if groups and n == groups[-1][-1] + 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    return ", ".join(f"{g[0]}–{g[-1]}" if len(g) > 2 else ", ".join(map(str, g)) for g in groups)


def _e(value: object) -> str:
    return html.escape(str(value), quote=True)


def _breakable(name: str) -> str:
    """Escape a name and let it wrap after the signs that join its parts."""
    return re.sub(r"([:,=/])", r"\1<wbr>", _e(name))


def _code(name: str) -> str:
    return f"<code>{_breakable(name)}</code>"
