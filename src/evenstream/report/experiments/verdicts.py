"""Does our number differ from the printed one beyond the noise? The rule and its wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenstream.measures import Metric
from evenstream.report.experiments.background import Stated
from evenstream.statistics import Interval, Sample, difference_of_means, mean_std

Verdict = Literal[
    "better", "worse", "differs", "no clear difference", "one seed", "not compared", "not judged"
]

SIGNS: dict[Verdict, str] = {
    "better": "▲", "worse": "▼", "differs": "◆", "no clear difference": "≈", "one seed": "·",
    "not compared": "–", "not judged": "○",
}  # fmt: skip
"""What stands before each verdict, so that nothing depends on colours."""

RULE = (
    "The difference is our mean minus the printed one. Its interval (95 %, Student's t with the "
    "degrees of freedom of the side with fewer runs) comes from the deviations and numbers of runs "
    "on both sides, widened by the rounding of the printed mean. ▲ better or ▼ worse: the interval "
    "leaves out zero. ≈ no clear difference: it does not. · one seed: our number has no deviation, "
    "so there is no verdict. – not compared: no deviation is printed, ours learned from other or "
    "less data, or times of different machines. ○ not judged: a setting of ours was "
    "chosen on this very cell. Of twenty cells without any true difference, one at most is marked "
    "by chance, on average."
)
"""The legend of every table."""


@dataclass(frozen=True)
class PrintComparison:
    """Our number beside a printed one."""

    stated: Stated
    difference: float
    interval: Interval | None
    """None if one of the sides has no deviation."""
    verdict: Verdict

    @property
    def text(self) -> str:
        """The verdict with its sign."""
        return f"{SIGNS[self.verdict]} {self.verdict}"


def compare(values: Sequence[float], stated: Stated, metric: Metric) -> PrintComparison:
    """Compare the results of our seeds with a printed mean and deviation.

    One seed gets no verdict. The printed deviation could stand in for ours, but our single runs
    vary by more than most printed deviations (0.1 to 0.3 for many cells), so it would mark
    differences that are luck; a second seed is cheap in comparison. With two or more seeds, the
    degrees of freedom make the interval as wide as so few seeds deserve.
    """
    mean, std = mean_std(values)
    difference = mean - stated.mean
    if not stated.judged:
        return PrintComparison(stated, difference, None, "not judged")
    if metric.timing or stated.sample is None or not stated.same_data:
        return PrintComparison(stated, difference, None, "not compared")
    if std is None:
        return PrintComparison(stated, difference, None, "one seed")
    found = difference_of_means(Sample(mean, std, len(values)), stated.sample)
    assert found.low is not None and found.high is not None
    low, high = found.low - stated.rounding, found.high + stated.rounding
    interval = Interval(found.mean, low, high, found.n, None).within(*metric.difference_bounds)
    return PrintComparison(stated, difference, interval, judge(interval, metric))


def judge(interval: Interval, metric: Metric) -> Verdict:
    """The verdict on a metric, from the interval of the difference."""
    if interval.low is None:
        return "one seed"
    if not interval.excludes_zero:
        return "no clear difference"
    if not metric.ranks:
        return "differs"
    return "better" if (interval.mean > 0) == (metric.better == "higher") else "worse"
