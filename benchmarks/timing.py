"""Ratios of times: A and B in turn, in one process, so that a busy machine slows down both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

FEWEST_PAIRS = 5


@dataclass(frozen=True)
class Patience:
    """How long to measure one line: so many pairs, unless the time is over before."""

    pairs: int = 200
    seconds: float = 15.0

    def times(self, factor: float) -> Patience:
        """The same number of pairs, with more time for slow things."""
        return Patience(self.pairs, self.seconds * factor)


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles of time(A) / time(B) over pairs; the times are for orientation."""

    median: float
    low: float
    high: float
    pairs: int
    a_ms: float
    b_ms: float

    @classmethod
    def once(cls, a: float, b: float) -> Ratio:
        """Of something that is measured only once; in whatever unit."""
        return cls(a / b, a / b, a / b, 1, a, b)

    def per(self, many: int) -> Ratio:
        """A against so many B."""
        low, median, high = (value / many for value in (self.low, self.median, self.high))
        return Ratio(median, low, high, self.pairs, self.a_ms, self.b_ms * many)

    @classmethod
    def of(cls, pairs: list[tuple[float, float]]) -> Ratio:
        """From the seconds of A and B in each pair."""
        low, median, high = statistics.quantiles([a / b for a, b in pairs], n=4, method="inclusive")
        a_ms, b_ms = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
        return cls(median, low, high, len(pairs), a_ms, b_ms)


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def alternate(
    a: Callable[[], object], b: Callable[[], object], patience: Patience, warm_up: int = 3
) -> Ratio:
    """time(a) / time(b), which of the two is first changing from pair to pair."""
    for _ in range(warm_up):
        a()
        b()
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + patience.seconds
    while len(pairs) < patience.pairs:
        if len(pairs) >= FEWEST_PAIRS and time.perf_counter() > end:
            break
        if len(pairs) % 2:
            pairs.append((seconds(a), seconds(b)))
        else:
            second = seconds(b)
            pairs.append((seconds(a), second))
    return Ratio.of(pairs)
