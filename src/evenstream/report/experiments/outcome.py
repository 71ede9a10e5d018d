"""What came of an experiment: the runs of each cell, their numbers, and the gains of LAS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import fmean, mode

from evenstream.measures import COST, Metric, metric_of
from evenstream.report.experiments.background import Background, Stated, distinct
from evenstream.report.experiments.found import HOW, FoundRun
from evenstream.report.experiments.shown_numbers import names_of, numbers
from evenstream.report.experiments.verdicts import SIGNS, PrintComparison, compare, judge
from evenstream.run.sameness import run_key
from evenstream.statistics import Interval, mean_interval, paired_by_seed
from evenstream.sweep.experiment import Cell, Experiment, Value
from evenstream.text import MethodText

Seeds = Mapping[int, FoundRun]
"""The runs of a cell."""

_RATIO, _RATIO_TO = "train_seconds_ratio", "er-las"


@dataclass(frozen=True)
class Measured:
    """The seeds of one cell, at one scale, in one metric."""

    scale: str
    cell: Cell
    metric: Metric
    values: Mapping[int, float]
    """By seed."""
    runs: Seeds
    stated: tuple[Stated, ...] = ()

    @cached_property
    def interval(self) -> Interval:
        """Mean, deviation and the interval of the mean."""
        return mean_interval(list(self.values.values())).within(*self.metric.bounds)

    @cached_property
    def comparisons(self) -> list[PrintComparison]:
        """Ours beside each number in print."""
        return [compare(list(self.values.values()), each, self.metric) for each in self.stated]

    @property
    def cost(self) -> float | None:
        """Image passes over those of ER-LAS, on average; None for runs that did not count them."""
        return _mean_of_known(run.run.metrics.number(COST.name) for run in self.runs.values())

    @property
    def seconds(self) -> float | None:
        """How long a run took on average, evaluations included."""
        return _mean_of_known(run.run.metrics.seconds for run in self.runs.values())


@dataclass(frozen=True)
class Gain:
    """A cell against another, seed by seed: with LAS against without, or against a baseline.

    Only seeds whose two runs were computed on the same kind of device, in the same precision and
    from the same weights: otherwise the difference would be taken for a gain.
    """

    scale: str
    cell: Cell
    """The one with LAS, or the one that is compared with the baseline."""
    without: Cell
    key: str
    """What the two differ in; empty for LAS."""
    metric: Metric
    seeds: tuple[int, ...]
    runs: Sequence[FoundRun]
    means: tuple[float, float]
    """Of `without` and of `cell`, over these seeds."""
    interval: Interval
    stated: tuple[Stated, ...] = ()

    @property
    def words(self) -> str:
        """Whether the gain is more than luck with the seeds."""
        verdict = judge(self.interval, self.metric)
        who = "LAS " if verdict in ("better", "worse") and not self.key else ""
        return f"{SIGNS[verdict]} {who}{verdict}"


@dataclass(frozen=True)
class Failure:
    """A run that has failed, and was not made since."""

    scale: str
    cell: Cell
    seed: int
    error: str
    attempts: int


@dataclass(frozen=True)
class Outcome:
    """An experiment with the runs that were found for it."""

    experiment: Experiment
    background: Background
    cells: Mapping[str, Mapping[Cell, Seeds]]
    """By scale; only cells with runs, in the experiment's order."""
    failures: Sequence[Failure] = ()

    @property
    def runs(self) -> list[FoundRun]:
        """All runs, each once."""
        every = (run for cells in self.cells.values() for seeds in cells.values()
                 for run in seeds.values())  # fmt: skip
        return list({run.key: run for run in every}.values())

    @cached_property
    def measured(self) -> list[Measured]:
        """The numbers of all cells that have any."""
        return [found for scale in self.cells for found in self._at(scale)]

    def _at(self, scale: str) -> Iterator[Measured]:
        for cell, seeds in self.cells[scale].items():
            stated = self.background.stated(cell, scale)
            for name, values in self._values(scale, cell, seeds).items():
                runs = {seed: seeds[seed] for seed in values}
                printed = tuple(distinct(stated.get(name, ())))
                yield Measured(scale, cell, metric_of(name), values, runs, printed)

    def _values(self, scale: str, cell: Cell, seeds: Seeds) -> dict[str, dict[int, float]]:
        """By metric and seed."""
        found: dict[str, dict[int, float]] = {}
        for metric in self.experiment.metrics:
            for seed, run in _measured_alike(metric_of(metric), seeds).items():
                for name, value in numbers(metric, run.run.metrics).items():
                    found.setdefault(name, {})[seed] = value
        if "train_seconds" in found:
            ratios = self._ratios(scale, cell, seeds)
            found |= {_RATIO: ratios} if ratios else {}
        return found

    def _ratios(self, scale: str, cell: Cell, seeds: Seeds) -> dict[int, float]:
        """Training time over that of ER-LAS, seed by seed; only if all on one kind of machine."""
        other = self.cells[scale].get(_counterpart(cell, "method", _RATIO_TO) or cell, {})
        found = {}
        for seed, run in seeds.items():
            same = seed in other and other[seed].machine == run.machine
            if same and run.one_machine:
                time, base = (
                    numbers("train_seconds", each.run.metrics) for each in (run, other[seed])
                )
                if time and base.get("train_seconds"):
                    found[seed] = time["train_seconds"] / base["train_seconds"]
        return found

    def compared(self, *, own: bool) -> Iterator[tuple[Measured, PrintComparison]]:
        """Our numbers beside those printed in the experiment's own table, or only in others."""
        source = self.experiment.source
        for each in self.measured:
            for found in each.comparisons:
                if (not source or source in found.stated.source.split(", ")) is own:
                    yield each, found

    @cached_property
    def gains(self) -> list[Gain]:
        """LAS against the same method without it."""
        return self._paired(_without_las)

    @cached_property
    def differences(self) -> list[Gain]:
        """Cells against those that have the experiment's baseline instead and are else the same."""
        return [
            found
            for key, value in self.experiment.baseline.items()
            for found in self._paired(partial(_counterpart, key=key, value=value), key)
        ]

    def _paired(self, counterpart: Callable[[Cell], Cell | None], key: str = "") -> list[Gain]:
        """Cells against their counterparts, in all metrics that say which is better."""
        by_cell = {(each.scale, each.cell, each.metric.name): each for each in self.measured}
        found = []
        for later in self.measured:
            without = counterpart(later.cell)
            earlier = without and by_cell.get((later.scale, without, later.metric.name))
            seeds = _pairs(later, earlier, key) if earlier else ()
            timing = later.metric.timing or later.metric.name == _RATIO
            if not earlier or not seeds or timing or not later.metric.ranks:
                continue
            theirs, ours = ({s: each.values[s] for s in seeds} for each in (earlier, later))
            difference = paired_by_seed(ours, theirs)
            assert difference is not None
            found.append(
                Gain(
                    later.scale, later.cell, earlier.cell, key, later.metric, seeds,
                    [each.runs[seed] for seed in seeds for each in (earlier, later)],
                    (fmean(theirs.values()), fmean(ours.values())),
                    difference.within(*later.metric.difference_bounds),
                    () if key else self._stated_gains(later, earlier),
                )
            )  # fmt: skip
        return found

    def _stated_gains(self, later: Measured, earlier: Measured) -> tuple[Stated, ...]:
        """Printed gains; where there are none, differences of means from the same table."""
        name = f"{later.metric.name}_gain"
        printed = self.background.stated(later.cell, later.scale).get(name)
        if printed:
            return tuple(distinct(printed))
        a, b = (
            self.background.stated(each.cell, each.scale).get(later.metric.name, ())
            for each in (later, earlier)
        )
        return tuple(distinct(
            Stated(round(x.mean - y.mean, 6), None, x.runs, max(x.decimals, y.decimals), x.source)
            for x in a for y in b if x.source == y.source
        ))  # fmt: skip

    def not_run(self) -> list[tuple[Cell, str, tuple[Stated, ...]]]:
        """Numbers in print for cells without runs at the experiment's own scale."""
        scale = self.experiment.base
        done = self.cells.get(scale, {})
        wanted = names_of(self.experiment.metrics)
        return [
            (cell, metric, tuple(distinct(values)))
            for cell in self.experiment.cells()
            if cell not in done
            for metric, values in self.background.stated(cell, scale).items()
            if metric in wanted
        ]


def collect_outcome(
    experiment: Experiment,
    runs: Iterable[FoundRun],
    background: Background | None = None,
    failures: Sequence[Failure] = (),
) -> Outcome:
    """Give each run to the cells that it belongs to: those whose runs have its key.

    A run that belongs to cells of several scales, because a smaller scale changes nothing about
    them, counts at the largest only. Any seed counts. Runs that differ from a cell's only in what
    the cell does not set of `HOW`, or in the file of weights where any will do, are taken for seeds
    that no other run has: those in float32 first, so that seeds which were also run in another
    precision are all of one kind, and for the cell that says most about how they were computed.
    """
    listed = list(runs)
    places, open_fields = _places(experiment)
    kinds = sorted(set(open_fields.values()), key=len)
    given: dict[str, dict[Cell, dict[int, FoundRun]]] = {}
    for run in listed:
        _give(given, places.get(run.setting, []), run)
    for run in sorted(listed, key=lambda run: run.run.metrics.text("dtype") != "float32"):
        if run.setting not in places:
            near = ((key, names) for names in kinds for key in run.settings_but(names))
            nearest = next((k for k, names in near if k in places and names <= open_fields[k]), "")
            _give(given, places.get(nearest, []), run)
    cells = {
        scale: {
            cell: dict(sorted(given[scale][cell].items()))
            for cell in experiment.cells(scale)
            if cell in given[scale]
        }
        for scale in experiment.scale_names
        if scale in given
    }
    return Outcome(experiment, background or Background(), cells, failures)


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _measured_alike(metric: Metric, seeds: Seeds) -> Seeds:
    """The runs whose numbers can be averaged; where there are several kinds, the most common."""
    kinds = {seed: run.how_measured(metric) for seed, run in seeds.items()}
    usual = mode(kinds.values())
    return {seed: run for seed, run in seeds.items() if kinds[seed] == usual}


def _give(
    given: dict[str, dict[Cell, dict[int, FoundRun]]],
    places: Iterable[tuple[str, Cell]],
    run: FoundRun,
) -> None:
    for scale, cell in places:
        given.setdefault(scale, {}).setdefault(cell, {}).setdefault(run.config.seed, run)


def _places(
    experiment: Experiment,
) -> tuple[dict[str, list[tuple[str, Cell]]], dict[str, frozenset[str]]]:
    """Scale and cells by the key of their first seed, and which fields of `HOW` they leave open.

    Of several scales the first one.
    """
    found: dict[str, list[tuple[str, Cell]]] = {}
    open_fields: dict[str, frozenset[str]] = {}
    for scale in experiment.scale_names:
        for cell in experiment.cells(scale):
            (first,) = experiment.configs(cell, scale, seeds=1)
            key, given = run_key(first), experiment.given(cell, scale)
            places = found.setdefault(key, [])
            if not places or places[0][0] == scale:
                places.append((scale, cell))
                at_default = {name for name, value in HOW.items() if getattr(first, name) == value}
                left_open = frozenset(at_default - given.keys())
                open_fields[key] = open_fields.get(key, left_open) & left_open
    return found, open_fields


def _pairs(later: Measured, earlier: Measured, but: str) -> tuple[int, ...]:
    """The seeds that both have, computed alike but for what is compared."""
    shared = sorted(later.values.keys() & earlier.values.keys())
    both = ((seed, later.runs[seed].conditions, earlier.runs[seed].conditions) for seed in shared)
    return tuple(
        seed for seed, one, other in both if all(one[k] == other[k] for k in one if k != but)
    )


def _counterpart(cell: Cell, key: str, value: Value) -> Cell | None:
    """The same cell with another value of a key; None if it has that value."""
    other = Cell(tuple((k, value if k == key else v) for k, v in cell.keys))
    return None if other == cell else other


def _without_las(cell: Cell) -> Cell | None:
    """The same cell for the method without LAS; None if the method has none."""
    method = MethodText.read(str(cell["method"]))
    if not method.adjusted:
        return None
    return _counterpart(cell, "method", str(replace(method, name=method.plain_name)))
