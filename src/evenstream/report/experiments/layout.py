"""The tables of an outcome as rows of text; every kind of file writes the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from evenstream.errors import count
from evenstream.measures import COST, Metric, metric_of
from evenstream.report.experiments.outcome import Gain, Measured, Outcome
from evenstream.report.experiments.pivot import pivot
from evenstream.report.experiments.verdicts import PrintComparison
from evenstream.report.experiments.wording import (
    all_cells,
    commits,
    key_words,
    machines,
    metric_text,
    range_text,
    scale_words,
    stated_text,
    varying_keys,
    weights,
)
from evenstream.report.formats import (
    OVER_BUDGET,
    format_interval,
    format_spread,
    plain,
    signed,
)
from evenstream.report.table import OR, Column, Table
from evenstream.sweep.estimate import in_words
from evenstream.sweep.experiment import Cell

_KNOWN = {
    column.name: column
    for column in (
        Column("weights", left=True, said="Weights: {}.".format),
        Column("machine", left=True, kind="wrap", said="Machine: {}.".format, printed=False),
        Column("commit", left=True, kind="wrap", said="Commit: {}.".format, printed=False),
        Column("metric", left=True, head=True, said=lambda name: ""),  # the caption explains it
        Column("seeds", said=lambda number: f"{count(int(number), 'seed')} each."),
        Column("time a run", printed=False),
        Column("verdict", left=True, kind="verdict"),
        Column("in words", left=True, kind="verdict"),
        Column("scale", left=True),
        Column("seed", left=True),
        Column("error", left=True, kind="wrap"),
    )
}
"""Columns that are more than numbers, beside the keys of cells, which name the rows."""


def tables(outcome: Outcome) -> list[Table]:
    """For each scale results, gains, then all about every cell; at the end what failed."""
    found = []
    for scale in outcome.cells:
        measured = [each for each in outcome.measured if each.scale == scale]
        found += [pivot(outcome, scale, measured)] if measured else []
        pairs = (*outcome.gains, *outcome.differences)
        for key in ("", *outcome.experiment.baseline):
            own = [each for each in pairs if (each.scale, each.key) == (scale, key)]
            found += [_paired(outcome, scale, own)] if own else []
        found += [_list(outcome, scale, measured)] if measured else []
    return [*found, _failures(outcome)] if outcome.failures else found


def _failures(outcome: Outcome) -> Table:
    varying, fixed = varying_keys(each.cell for each in outcome.failures)
    rows = [
        {
            **_keys(each.cell, varying),
            "scale": each.scale,
            "seed": str(each.seed),
            "attempts": str(each.attempts),
            "error": each.error,
        }
        for each in outcome.failures
    ]
    caption = f"Not in the tables above. {all_cells(fixed)}".strip()
    return _table("Failed runs", "", caption, (), rows, varying or ["scale"])


def printed_table(outcome: Outcome) -> Table | None:
    """The numbers in print for what was not run; None if there are none."""
    entries = outcome.not_run()
    if not entries:
        return None
    varying, fixed = varying_keys(cell for cell, _, _ in entries)
    several = any(len(stated) > 1 for _, _, stated in entries)
    rows = [
        {
            **_keys(cell, varying),
            "metric": metric,
            outcome.background.by: OR.join(stated_text(s, source=several) for s in stated),
        }
        for cell, metric, stated in entries
    ]
    metrics = [metric_of(metric) for _, metric, _ in entries]
    title = f"Printed by {outcome.background.by}, not run yet"
    return _table(title, "", all_cells(fixed), metrics, rows, varying)


def _list(outcome: Outcome, scale: str, measured: Sequence[Measured]) -> Table:
    """A row for each cell and metric, with how sure and how it was made."""
    varying, fixed = varying_keys(each.cell for each in measured)
    beside = any(each.comparisons for each in measured)
    started = any(run.config.weights_sha256 for each in measured for run in each.runs.values())
    counted = any(each.cost is not None for each in measured)
    rows = [
        {
            **_keys(each.cell, varying),
            "metric": each.metric.name,
            "ours": format_spread(each.interval, each.metric.digits),
            "seeds": str(len(each.values)),
            "95 % interval": range_text(each.interval, each.metric.digits),
            **(_beside(outcome, each) if beside else {}),
            **({"cost": _cost(each.cost, outcome.experiment.budget)} if counted else {}),
            "time a run": "–" if each.seconds is None else in_words(each.seconds),
            **({"weights": weights(each.runs.values())} if started else {}),
            "machine": machines(each.runs.values()),
            "commit": commits(each.runs.values()),
        }
        for each in measured
    ]
    verdicts = [{comparison.verdict for comparison in each.comparisons} for each in measured]
    marks = ["".join(found) if len(found) == 1 else "" for found in verdicts]
    metrics = [each.metric for each in measured]
    words = scale_words(outcome, scale)
    caption = all_cells(fixed)
    if outcome.background.by and not beside:
        caption = f"{outcome.background.by.capitalize()} prints nothing for these cells. {caption}"
    found = _table("Every cell", words, caption, metrics, rows, varying, marks)
    return replace(found, kind="detail", made=_made(measured, found.columns))


def _cost(cost: float | None, budget: float | None) -> str:
    """Image passes over those of ER-LAS, with a mark above the budget."""
    over = cost is not None and budget is not None and cost > budget
    text = plain(cost, COST.digits)
    return text if cost is None else f"{text}×{f' {OVER_BUDGET}' if over else ''}"


def _made(measured: Sequence[Measured], columns: Sequence[str]) -> str:
    """The columns about how runs were made in a few sentences; those that are still columns."""
    seconds = [each.seconds for each in measured if each.seconds is not None]
    ends = dict.fromkeys(in_words(end) for end in (min(seconds), max(seconds))) if seconds else ()
    runs = [run for each in measured for run in each.runs.values()]
    words = {
        "time a run": " to ".join(ends), "machine": machines(runs), "commit": commits(runs)
    }  # fmt: skip
    return " ".join(
        f"{name.capitalize()}: {text}." for name, text in words.items() if name in columns and text
    )


def _beside(outcome: Outcome, each: Measured) -> dict[str, str]:
    """The columns of the numbers in print."""
    by = outcome.background.by
    if not each.comparisons:
        return {by: "–", "difference": "–", "verdict": "– not printed"}
    several = len(each.comparisons) > 1
    label = "" if each.scale == outcome.experiment.base else f" (at {each.scale})"
    return {
        by: OR.join(stated_text(c.stated, source=several) for c in each.comparisons),
        "difference": OR.join(_difference(c, each.metric) for c in each.comparisons),
        "verdict": OR.join(dict.fromkeys(c.text for c in each.comparisons)) + label,
    }


def _difference(comparison: PrintComparison, metric: Metric) -> str:
    """Ours minus the printed number, with the interval if there is one."""
    if comparison.interval is None:
        return signed(comparison.difference, metric.digits)
    return format_interval(comparison.interval, metric.digits)


def _paired(outcome: Outcome, scale: str, found: Sequence[Gain]) -> Table:
    """Cells against others, seed by seed: LAS against none, or all against a baseline."""
    key, by, beside = found[0].key, outcome.background.by, any(each.stated for each in found)
    base = key_words(key, outcome.experiment.baseline[key]) if key else ""
    names = (base, "this", "difference") if key else ("without LAS", "with LAS", "gain")
    varying, fixed = varying_keys(each.cell for each in found)
    own = key or "method"
    varying = varying if own in varying else [own, *varying]
    fixed.pop(own, None)
    rows = [
        {
            **_keys(each.cell, varying),
            "metric": each.metric.name,
            names[0]: plain(each.means[0], each.metric.digits),
            names[1]: plain(each.means[1], each.metric.digits),
            names[2]: format_interval(each.interval, each.metric.digits),
            "seeds": str(len(each.seeds)),
            "in words": each.words,
            **({f"gain in {by}": _stated_gain(each)} if beside else {}),
        }
        for each in found
    ]
    which = f"Each cell minus the same with {base}, paired by seed" if key else (
        "LAS minus the same without it, paired by seed (of the same device, precision and weights)"
    )  # fmt: skip
    caption = f"{which}, with the 95 % interval of the mean difference. {all_cells(fixed)}".strip()
    title = f"Compared with {base}" if key else "Gain of LAS"
    metrics = [each.metric for each in found]
    return _table(title, scale_words(outcome, scale), caption, metrics, rows, varying)


def _stated_gain(gain: Gain) -> str:
    if not gain.stated:
        return "–"
    several = len(gain.stated) > 1
    return OR.join(
        signed(each.mean, each.decimals) + (f" ({each.source})" if several else "")
        for each in gain.stated
    )


def _keys(cell: Cell, varying: Iterable[str]) -> dict[str, str]:
    return {key: str(cell[key]) for key in varying}


def _table(
    title: str,
    scale: str,
    caption: str,
    metrics: Iterable[Metric],
    rows: Sequence[Mapping[str, str]],
    varying: Sequence[str],
    marks: Sequence[str] = (),
) -> Table:
    """Bring rows into columns; what all rows have in common goes into the caption."""
    said = [caption, *(f"{metric_text(metric)}." for metric in dict.fromkeys(metrics))]
    constant = []
    for name, column in _KNOWN.items():
        values = {row[name] for row in rows if name in row}
        if column.said and len(values) == 1:
            constant.append(name)
            said.append(column.said(*values))
    names = [name for name in rows[0] if name not in constant]
    keys = {name: Column(name, left=True, head=True) for name in varying}
    return Table(
        title,
        " ".join(filter(None, said)),
        tuple(keys.get(name) or _KNOWN.get(name) or Column(name) for name in names),
        tuple(tuple(row[name] for name in names) for row in rows),
        scale,
        tuple(marks),
    )
