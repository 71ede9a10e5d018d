"""Means, spreads and intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from evenstream.errors import InputError

__all__ = [
    "Interval",
    "Sample",
    "difference_of_means",
    "mean_interval",
    "mean_std",
    "paired_by_seed",
    "paired_difference",
]


@dataclass(frozen=True, slots=True)
class Sample:
    """Results known only by their mean, sample standard deviation and number."""

    mean: float
    std: float
    n: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, or a difference of two, with its confidence interval.

    Attributes:
        mean: the mean of the values or of the paired differences, or the difference of two means.
        low: lower end of the interval; `None` with a single value or pair.
        high: upper end of the interval; `None` with a single value or pair.
        n: the number of values or pairs; for two separate means, the smaller number.
        std: sample standard deviation of the values or differences; `None` with a single one, and
            for two separate means, which have one each.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    std: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval; `False` when there is no interval."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def __neg__(self) -> Interval:
        """The difference the other way round."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return Interval(-self.mean, low, high, self.n, self.std)

    def within(self, least: float, most: float) -> Interval:
        """The same without what is impossible, such as a share above 100 %."""
        if self.low is None or self.high is None or not least <= self.mean <= most:
            return self
        return replace(self, low=max(self.low, least), high=min(self.high, most))

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the fields as a dictionary that can be written to JSON."""
        return asdict(self)


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample standard deviation (divided by n-1).

    The deviation of a single value is not defined: `None`.
    """
    data = _finite(values)
    mean = float(data.mean())
    if data.size < 2:
        return mean, None
    # The mean of equal numbers can be off by a rounding error; their spread is still zero.
    return mean, float(data.std(ddof=1)) if np.ptp(data) > 0 else 0.0


def paired_difference(
    a: Sequence[float], b: Sequence[float], *, confidence: float = 0.95
) -> Interval:
    """Return the mean of `a - b` with its Student-t confidence interval.

    Pairing the runs by seed removes what both have in common, such as an easy order of the data,
    so fewer seeds are needed to see a difference than with two separate averages.

    Args:
        a: one result for each seed.
        b: the results to compare with, for the same seeds in the same order.
        confidence: how often such intervals contain the true mean difference.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence}")
    first, second = _finite(a), _finite(b)
    if first.size != second.size:
        raise InputError(
            f"paired results need one value per seed on both sides, not {first.size} and "
            f"{second.size}"
        )
    difference = first - second
    mean, std = mean_std(difference.tolist())
    n = int(difference.size)
    if std is None:
        return Interval(mean=mean, low=None, high=None, n=n, std=None)
    half = _t_quantile(0.5 + confidence / 2, n - 1) * std / math.sqrt(n)
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n, std=std)


def paired_by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> Interval | None:
    """Return the paired difference on the seeds that both have; `None` if there is none."""
    seeds = [seed for seed in a if seed in b]
    return paired_difference([a[s] for s in seeds], [b[s] for s in seeds]) if seeds else None


def mean_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Return the mean of values with its Student-t confidence interval."""
    return paired_difference(values, [0.0] * len(values), confidence=confidence)


def difference_of_means(a: Sample, b: Sample, *, confidence: float = 0.95) -> Interval:
    """Return the difference of two means, `a - b`, with a cautious confidence interval.

    For results that cannot be paired, such as ours and printed ones: each side has its own
    deviation and number. `n` is the smaller number and `std` is undefined. The degrees of freedom
    are those of the smaller side: Welch's estimate is too large if one side has two or three
    values, whose deviation may happen to be tiny.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence}")
    for sample in (a, b):
        if sample.n < 2 or not (math.isfinite(sample.mean) and 0 <= sample.std < math.inf):
            raise InputError(f"mean, deviation and at least two values are needed, not {sample}")
    mean, n = a.mean - b.mean, min(a.n, b.n)
    error = math.hypot(*(sample.std / math.sqrt(sample.n) for sample in (a, b)))
    half = _t_quantile(0.5 + confidence / 2, n - 1) * error
    return Interval(mean=mean, low=mean - half, high=mean + half, n=n, std=None)


def _t_quantile(probability: float, freedom: int) -> float:
    """Student's t; `scipy.stats` has it too, but takes a second or two to load."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def _finite(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    data = np.asarray(values, dtype=np.float64).reshape(-1)
    if data.size == 0:
        raise InputError("no values; at least one finished seed is needed")
    if not np.isfinite(data).all():
        raise InputError("a value is not a finite number")
    return data
