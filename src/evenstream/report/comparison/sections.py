"""The sections of words and tables: unfinished runs, results, and how they were made."""

from __future__ import annotations

from collections.abc import Sequence

from evenstream.errors import count
from evenstream.measures import AREA, COST
from evenstream.report.comparison.content import Content
from evenstream.report.comparison.summary import Summary, further_metrics, known, pairs
from evenstream.report.comparison.tables import (
    differences_table,
    further_table,
    results_table,
    title,
)
from evenstream.report.comparison.words import difference_sentence
from evenstream.report.formats import common
from evenstream.report.html import bullets, card, code, details, escape, lines, scroll
from evenstream.report.html_table import html_table
from evenstream.report.runs import Run
from evenstream.report.table import Column, Table
from evenstream.run.metrics_file import number

_SPELT = 3  # pairs of methods beyond which only those with the first method are spelt out


def unfinished(content: Content) -> str:
    """Name the runs that are not in the results, and say why."""
    left = [run for run in content.runs if not run.finished]
    if not left:
        return ""
    items = [f"{code(run.method)}, seed {escape(run.seed)}: {escape(_state(run))}" for run in left]
    title = f"{count(len(left), 'run')} not in the results"
    return card("unfinished", title, bullets(items), kind="card warn")


def _state(run: Run) -> str:
    """Say how far a run has come, or what is wrong with it."""
    metrics = run.metrics
    text = run.problem or metrics.text("status") or "no results"
    if not metrics.tasks_done:
        return text
    of = f" of {len(metrics.tasks)}" if metrics.tasks else ""
    text += f", {metrics.tasks_done}{of} tasks measured"
    last = number((metrics.values("average_accuracy") or [None])[-1])
    return text if last is None else f"{text}, average accuracy so far {last:.1f} %"


def skipped(content: Content) -> str:
    """Name samples that could not be read and are missing from the results."""
    items = []
    for run in content.runs:
        for part, what in (("train", "training"), ("test", "test")):
            n, first = run.metrics.skipped(part)
            if n:
                more = f" and {n - len(first):,} more" if n > len(first) else ""
                names = escape(", ".join(first)) + more
                items.append(
                    f"{code(run.method)}, seed {escape(run.seed)}: "
                    f"{count(n, f'{what} sample')}{details('Which', f'<p>{names}</p>')}"
                )
    if not items:
        return ""
    title = "Samples that could not be read were left out"
    return card("skipped", title, bullets(items), kind="card warn")


def results(content: Content) -> str:
    """Return the final results of each method and the differences between them."""
    summary = content.summary
    several = any(len(found.runs) > 1 for found in summary.values())
    note = (
        " The number after ± is the sample standard deviation over seeds: about how far one "
        "seed lands from the mean."
    )
    measured = common(run.metrics.online.statement for run in content.finished)
    area = known((AREA,), summary)
    text = f"""{html_table(results_table(summary))}
<p class="quiet">Final accuracy is the share of test samples classified correctly at the end,
averaged over all tasks. Forgetting is how far the accuracy on earlier tasks fell from its best,
in percentage points.{
        "".join(f" A<sub>AUC</sub> is {m.meaning}, measured {escape(measured)}." for m in area)
    }{note if several else ""}</p>
{_differences(summary)}"""
    return card("results", "Results", text)


def further(content: Content) -> str:
    """Return the measures beside accuracy and forgetting, as far as there are any."""
    found = [m for m in known(further_metrics(), content.summary) if m is not COST]
    if not found:
        return ""
    table = scroll(html_table(further_table(content.summary, found)), "Further measures")
    meanings = "".join(
        f"<dt>{escape(title(m))}</dt><dd>{escape(m.meaning)}</dd>" for m in found if m.meaning
    )
    words = details("What these are", f'<dl class="meanings">{meanings}</dl>') if meanings else ""
    return card("further", "Further measures", f"{table}\n{words}")


def _differences(summary: Summary) -> str:
    """Say which differences between methods are more than luck."""
    found = pairs(summary)
    if not found:
        return ""
    first = next(iter(summary))
    spelt = found if len(found) <= _SPELT else [pair for pair in found if pair[1] == first]
    items = [difference_sentence(*pair) for pair in spelt]
    many = (
        f" There are {len(found)} comparisons here; expect about one in twenty to look clear "
        "by chance alone."
    )
    table = ""
    if len(found) > 1:
        numbers = scroll(html_table(differences_table(summary)), "Paired differences")
        table = details(f"All {len(found)} paired differences", numbers) + "\n"
    return f"""<div class="differences">
<h3>Is the difference real, or luck with the seeds?</h3>
{bullets(items)}
<p class="quiet">Methods are compared seed by seed on the same data. The interval is the \
range in which the true average difference plausibly lies: were the experiment repeated \
many times, 95 of 100 such intervals would hold it. If it leaves out zero, luck with the \
seeds is an unlikely explanation; if it includes zero, more seeds are needed to tell.\
{many if len(found) > _SPELT else ""}</p>
{table}</div>"""


def setup(content: Content) -> str:
    """Say how the runs were made: classes, configurations, software."""
    parts = [_classes(content.finished), _configurations(content), _environment(content.runs)]
    text = lines([part for part in parts if part])
    return card("setup", "How it was run", text) if text else ""


def _classes(finished: Sequence[Run]) -> str:
    """List the classes of each task, if all runs have the same."""
    tasks = [run.metrics.tasks for run in finished]
    if not tasks:
        return ""
    if any(other != tasks[0] for other in tasks):
        return '<p class="quiet">The classes of the tasks differ between seeds.</p>'
    items = "".join(f"<li>{escape(', '.join(task))}</li>" for task in tasks[0])
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
    rows = tuple((key, common(run.env.get(key) for run in runs)) for key in keys)
    heads = (Column("", head=True), Column("", left=True))
    name = "Software and machine"
    table = html_table(Table(name, "From env.json.", heads, rows, kind="plain"))
    return details(name, scroll(table, name)) if keys else ""
