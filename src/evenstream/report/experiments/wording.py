"""Cells, scales and numbers in words, the same in every file and on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evenstream.measures import Metric
from evenstream.report.experiments.background import Stated
from evenstream.report.experiments.found import FoundRun
from evenstream.report.experiments.outcome import Outcome
from evenstream.report.formats import plain
from evenstream.statistics import Interval
from evenstream.sweep.experiment import Cell, Experiment, Match, Value
from evenstream.text import OptionKey

_INFERRED = "inferred protocol"


def source_words(experiment: Experiment) -> str:
    """What an experiment reproduces, and whether that states its settings."""
    return f"{experiment.source}, {_INFERRED}" if experiment.inferred else experiment.source


def scale_words(outcome: Outcome, scale: str) -> str:
    """A scale with all that is different about it: "cpu: network slim-resnet18"."""
    experiment = outcome.experiment
    inferred = [_INFERRED] if experiment.at(scale).inferred else []
    if scale == experiment.base:
        usual = "full protocol" if outcome.background.by else "as in the file"
        return f"{scale}: {'; '.join(inferred) or usual}"
    other = experiment.scales[scale]
    different = {
        **{key: value for key, value in other.settings.items()
           if experiment.settings.get(key) != value},
        **{key: _other_values(values, experiment.grid[key]) for key, values in other.grid.items()
           if not set(values) <= set(experiment.grid[key])},
    }  # fmt: skip
    parts = [f"{_name(key)} {'none' if value == '' else value}" for key, value in different.items()]
    parts += [
        f"{_name(key)} {value}{_condition(rule.match)}"
        for rule in other.when
        for key, value in rule.settings.items()
    ]
    return f"{scale}: {'; '.join([*inferred, *(parts or ['fewer seeds'])])}"


def _other_values(values: Sequence[Value], usual: Sequence[Value]) -> str:
    """The values of a scale, or those that it has in addition."""
    also = set(usual) <= set(values)
    words = ", ".join(str(value) for value in values if not (also and value in usual))
    return f"also {words}" if also else words


def _condition(match: Match) -> str:
    """Which cells a rule is for: " for er or mir, memory 100"; nothing if for all."""
    words = [key_words(key, " or ".join(map(str, v))) for key, v in match.wanted.items()]
    return f" for {', '.join(words)}" if words else ""


def _name(key: str) -> str:
    """A key as words: an option without what it is an option of."""
    return OptionKey.read(key).short


def varying_keys(cells: Iterable[Cell]) -> tuple[list[str], dict[str, Value]]:
    """The keys that tell cells apart, and the others with their value."""
    listed = list(cells)
    values = {key: dict.fromkeys(cell[key] for cell in listed) for key, _ in listed[0].keys}
    varying = [key for key, found in values.items() if len(found) > 1]
    fixed = {key: next(iter(found)) for key, found in values.items() if len(found) == 1}
    return varying, fixed


def key_words(key: str, value: Value) -> str:
    """A key and its value in a sentence."""
    return str(value) if key in ("method", "stream") else f"{_name(key)} {value}"


def all_cells(fixed: Mapping[str, Value]) -> str:
    """What all cells of a table have in common, in a sentence; empty if there is nothing."""
    words = ", ".join(key_words(key, value) for key, value in fixed.items())
    return f"All cells here: {words}." if words else ""


def range_text(interval: Interval | None, digits: int) -> str:
    """The ends of an interval, or a dash."""
    if interval is None or interval.low is None:
        return "–"
    return f"{plain(interval.low, digits)} to {plain(interval.high, digits)}"


def stated_text(stated: Stated, *, source: bool) -> str:
    """A number as it is printed."""
    text = plain(stated.mean, stated.decimals)
    if stated.std is not None:
        text += f" ± {stated.std:.{stated.std_decimals}f}"
    return f"{text} ({stated.source})" if source else text


def metric_text(metric: Metric) -> str:
    """A metric with its meaning, for a caption."""
    words = "" if metric.words == metric.name else f": {metric.words}"
    return f"{metric.name}{words}{f' ({metric.reading})' if metric.reading else ''}"


def machines(runs: Iterable[FoundRun]) -> str:
    """What runs were computed on."""
    return _all(run.machine for run in runs)


def weights(runs: Iterable[FoundRun]) -> str:
    """What runs start from."""
    return _all(run.weights for run in runs)


def commits(runs: Iterable[FoundRun]) -> str:
    """The code that runs were computed with."""
    return _all(run.commit for run in runs)


def _all(values: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(values))
