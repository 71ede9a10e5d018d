"""Ratios of times: A and B in turn, in one process, so that a busy machine slows down both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FEWEST_PAIRS = 3


@dataclass(frozen=True)
class Patience:
    """How long to measure one line: a number of pairs, or fewer if time runs out."""

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
        """A ratio of things measured only once, in any unit."""
        return cls(a / b, a / b, a / b, 1, a, b)

    def per(self, many: int) -> Ratio:
        """A against so many B."""
        low, median, high = (value / many for value in (self.low, self.median, self.high))
        return Ratio(median, low, high, self.pairs, self.a_ms, self.b_ms * many)

    @classmethod
    def of(cls, a: list[float], b: list[float]) -> Ratio:
        """From the seconds of A and B in each pair."""
        ratios = [first / second for first, second in zip(a, b, strict=True)]
        low, median, high = np.percentile(ratios, [25, 50, 75]).tolist()
        a_ms, b_ms = (statistics.median(times) * 1e3 for times in (a, b))
        return cls(median, low, high, len(ratios), a_ms, b_ms)


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu_seconds(call: Callable[[], object]) -> float:
    """CPU time of this thread for a call: shows small differences even on a busy machine."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def take_turns(
    *calls: Callable[[], object],
    patience: Patience,
    warm_up: int = 3,
    measure: Callable[[Callable[[], object]], float] = seconds,
) -> tuple[list[float], ...]:
    """The seconds of each call, round by round; the order alternates."""
    for _ in range(warm_up):
        for call in calls:
            call()
    times: tuple[list[float], ...] = tuple([] for _ in calls)
    end = time.perf_counter() + patience.seconds
    for turn in range(patience.pairs):
        if turn >= FEWEST_PAIRS and time.perf_counter() > end:
            break
        for place in range(len(calls)):
            index = (turn + place) % len(calls)
            times[index].append(measure(calls[index]))
    return times


def alternate(
    a: Callable[[], object], b: Callable[[], object], patience: Patience, warm_up: int = 3
) -> Ratio:
    """time(a) / time(b)."""
    return Ratio.of(*take_turns(a, b, patience=patience, warm_up=warm_up))
