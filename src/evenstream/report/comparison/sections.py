"""The sections of words and tables: unfinished runs, results, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenstream.measures import AREA, COST, Metric
from evenstream.report.comparison.content import Content
from evenstream.report.comparison.further import further_metrics, known, title
from evenstream.report.comparison.summary import pairs
from evenstream.report.comparison.words import difference_sentence
from evenstream.report.formats import (
    OVER_BUDGET,
    common,
    count,
    format_interval,
    seconds_digits,
    verdict,
)
from evenstream.report.html import card, code, details, escape, lines, scroll, spread
from evenstream.report.legend import method_label
from evenstream.report.runs import Run
from evenstream.report.series import Series

_SPELT = 3  # pairs of methods beyond which only those with the first method are spelt out


def unfinished(content: Content) -> str:
    """Name the runs that are not in the results, and say why."""
    left = [run for run in content.runs if not run.finished]
    if not left:
        return ""
    items = [
        f"<li>{code(run.method)}, seed {escape(run.seed)}: {escape(_state(run))}</li>"
        for run in left
    ]
    title = f"{count(len(left), 'run')} not in the results"
    return card("unfinished", title, f"<ul>\n{lines(items)}\n</ul>", kind="card warn")


def _state(run: Run) -> str:
    """Say how far a run has come, or what is wrong with it."""
    text = run.problem or run.status
    if not run.tasks_done:
        return text
    total = run.metrics.get("tasks")
    of = f" of {len(total)}" if isinstance(total, list) else ""
    text += f", {run.tasks_done}{of} tasks measured"
    average = run.metrics.get("average_accuracy")
    last = average[-1] if isinstance(average, list) and average else None
    return (
        f"{text}, average accuracy so far {last:.1f} %" if isinstance(last, int | float) else text
    )


def skipped(content: Content) -> str:
    """Name samples that could not be read and are missing from the results."""
    items = []
    for run in content.runs:
        for part, what in (("train", "training"), ("test", "test")):
            n, first = run.skipped(part)
            if n:
                more = f" and {n - len(first):,} more" if n > len(first) else ""
                names = escape(", ".join(first)) + more
                items.append(
                    f"<li>{code(run.method)}, seed {escape(run.seed)}: "
                    f"{count(n, f'{what} sample')}{details('Which', f'<p>{names}</p>')}</li>"
                )
    if not items:
        return ""
    title = "Samples that could not be read were left out"
    return card("skipped", title, f"<ul>\n{lines(items)}\n</ul>", kind="card warn")


def results(content: Content) -> str:
    """Return the final results of each method and the differences between them."""
    summary = content.summary
    best = max(summary, key=lambda name: summary[name]["A_T"]["mean"])
    area, costs = (known((metric,), summary) for metric in (AREA, COST))
    rows = [
        _result_row(s, summary[s.name], [*area, *costs], len(summary) > 1 and s.name == best)
        for s in content.series
    ]
    several = any(len(entry["seeds"]) > 1 for entry in summary.values())
    caption = "Mean over seeds, after the last task." if several else "After the last task."
    note = (
        " The number after ± is the sample standard deviation over seeds: about how far one "
        "seed lands from the mean."
    )
    measured = common(run.online.get("statement") for run in content.finished)
    heads = [
        ("Final accuracy, A<sub>T</sub>", "%, higher is better"),
        *[("While learning, A<sub>AUC</sub>", m.reading) for m in area],
        ("Forgetting, F<sub>T</sub>", "points, lower is better"),
        ("Seeds", ""),
        ("Training time", "seconds"),
        *[("Cost", m.unit) for m in costs],
    ]
    text = f"""{_stack(caption, heads, rows)}
<p class="quiet">Final accuracy is the share of test samples classified correctly at the end,
averaged over all tasks. Forgetting is how far the accuracy on earlier tasks fell from its best,
in percentage points.{
        "".join(f" A<sub>AUC</sub> is {m.meaning}, measured {escape(measured)}." for m in area)
    }{note if several else ""}</p>
{_differences(summary)}"""
    return card("results", "Results", text)


def _result_row(
    series: Series, entry: Mapping[str, Any], also: Sequence[Metric], best: bool
) -> str:
    """Return a method's row."""
    cells = {
        "Final accuracy": spread(entry["A_T"]),
        **({"While learning": _measured(entry, AREA)} if AREA in also else {}),
        "Forgetting": spread(entry["F_T"]),
        "Seeds": str(len(entry["seeds"])),
        "Training seconds": spread(entry["train_seconds"], seconds_digits(entry)),
        **({"Cost": _cost(entry)} if COST in also else {}),
    }
    return _stack_row(series, cells, best=best)


def _cost(entry: Mapping[str, Any]) -> str:
    """Return the cost over that of ER-LAS, with a badge above the budget."""
    over = f' <span class="badge">{OVER_BUDGET}</span>' if entry.get("over_budget") else ""
    return _measured(entry, COST) + over


def further(content: Content) -> str:
    """Return the measures beside accuracy and forgetting, as far as there are any."""
    found = [m for m in known(further_metrics(), content.summary) if m is not COST]
    if not found:
        return ""
    rows = [
        _stack_row(s, {escape(title(m)): _measured(content.summary[s.name], m) for m in found})
        for s in content.series
    ]
    heads = [(escape(title(m)), escape(m.reading)) for m in found]
    table = _stack("After the last task.", heads, rows)
    meanings = "".join(
        f"<dt>{escape(title(m))}</dt><dd>{escape(m.meaning)}</dd>" for m in found if m.meaning
    )
    words = details("What these are", f'<dl class="meanings">{meanings}</dl>') if meanings else ""
    return card("further", "Further measures", f"{scroll(table, 'Further measures')}\n{words}")


def _measured(entry: Mapping[str, Any], metric: Metric) -> str:
    """Return mean and deviation of a metric, or a dash."""
    found = entry.get(metric.name, {"mean": None, "std": None})
    shown = {k: found[k] and metric.factor * found[k] for k in ("mean", "std")}
    return spread(shown, metric.digits)


def _stack(caption: str, heads: Sequence[tuple[str, str]], rows: list[str]) -> str:
    """Return a table of methods whose rows become small lists on narrow screens."""
    columns = "".join(
        f'<th role="columnheader" scope="col">{name}{f"<small>{unit}</small>" if unit else ""}</th>'
        for name, unit in [("Method", ""), *heads]
    )
    return f"""<table class="stack" role="table">
<caption>{caption}</caption>
<thead role="rowgroup"><tr role="row">{columns}</tr></thead>
<tbody role="rowgroup">
{lines(rows)}
</tbody>
</table>"""


def _stack_row(series: Series, cells: Mapping[str, str], *, best: bool = False) -> str:
    """Return a method's row of such a table."""
    body = "".join(
        f'<td role="cell" data-label="{label}"><span class="nowrap">{value}</span></td>'
        for label, value in cells.items()
    )
    badge = '<span class="badge">highest</span>' if best else ""
    head = f'<th role="rowheader" scope="row">{method_label(series)}{badge}</th>'
    return f'<tr role="row"{" class=best" if best else ""}>{head}{body}</tr>'


def _differences(summary: Mapping[str, Any]) -> str:
    """Say which differences between methods are more than luck."""
    found = pairs(summary)
    if not found:
        return ""
    first = next(iter(summary))
    spelt = found if len(found) <= _SPELT else [pair for pair in found if pair[1] == first]
    items = [f"<li>{difference_sentence(*pair)}</li>" for pair in spelt]
    many = (
        f" There are {len(found)} comparisons here; expect about one in twenty to look clear "
        "by chance alone."
    )
    table = _differences_table(found) + "\n" if len(found) > 1 else ""
    return f"""<div class="differences">
<h3>Is the difference real, or luck with the seeds?</h3>
<ul>
{lines(items)}
</ul>
<p class="quiet">Methods are compared seed by seed on the same data. The interval is the \
range in which the true average difference plausibly lies: were the experiment repeated \
many times, 95 of 100 such intervals would hold it. If it leaves out zero, luck with the \
seeds is an unlikely explanation; if it includes zero, more seeds are needed to tell.\
{many if len(found) > _SPELT else ""}</p>
{table}</div>"""


def _differences_table(found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> str:
    """Return all differences in numbers."""
    columns = {"A_T": "Accuracy", AREA.name: "While learning", "F_T": "Forgetting"}
    shown = [key for key in columns if any(key in difference for *_, difference in found)]
    rows = []
    for method, baseline, difference in found:
        cells = "".join(
            f'<td class="nowrap">{escape(format_interval(difference.get(key)))}</td>'
            for key in shown
        )
        rows.append(
            f'<tr><th scope="row">{code(method)} minus {code(baseline)}</th>{cells}'
            f"<td>{len(difference['seeds'])}</td>"
            f'<td class="words">{escape(verdict(difference["A_T"]))}</td></tr>'
        )
    head = (
        '<th scope="col">Pair</th>'
        + "".join(f'<th scope="col">{columns[key]}</th>' for key in shown)
        + '<th scope="col">Seeds</th><th scope="col" class="words">In words</th>'
    )
    table = (
        "<table><caption>Mean difference in points [95 % interval].</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>\n{lines(rows)}\n</tbody></table>"
    )
    return details(f"All {len(found)} paired differences", scroll(table, "Paired differences"))


def setup(content: Content) -> str:
    """Say how the runs were made: classes, configurations, software."""
    parts = [_classes(content.finished), _configurations(content), _environment(content.runs)]
    text = lines([part for part in parts if part])
    return card("setup", "How it was run", text) if text else ""


def _classes(finished: Sequence[Run]) -> str:
    """List the classes of each task, if all runs have the same."""
    tasks = [run.metrics["tasks"] for run in finished]
    if not tasks:
        return ""
    if any(other != tasks[0] for other in tasks):
        return '<p class="quiet">The classes of the tasks differ between seeds.</p>'
    items = "".join(
        f"<li>{escape(', '.join(map(str, task)) if isinstance(task, list) else task)}</li>"
        for task in tasks[0]
    )
    return details("Classes of each task", f'<ol class="classes">{items}</ol>')


def _configurations(content: Content) -> str:
    """Show the configuration of one run of each method, a finished one if there is any."""
    shown: dict[str, Run] = {}
    for run in [*content.finished, *content.runs]:
        if run.config:
            shown.setdefault(run.method, run)
    files = [
        f"<h3>{code(name)}, seed {escape(run.seed)}</h3><pre tabindex=0>{escape(run.config)}</pre>"
        for name, run in shown.items()
    ]
    return details("Configuration of each method", lines(files)) if files else ""


def _environment(runs: Sequence[Run]) -> str:
    """Show software and machine."""
    keys = dict.fromkeys(key for run in runs for key in run.env if key != "resumed")
    rows = "".join(
        f'<tr><th scope="row">{escape(key)}</th><td class="words">'
        f"{escape(common(run.env.get(key) for run in runs))}</td></tr>"
        for key in keys
    )
    table = f"<table><caption>From env.json.</caption><tbody>{rows}</tbody></table>"
    name = "Software and machine"
    return details(name, scroll(table, name)) if keys else ""
