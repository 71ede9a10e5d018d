"""How long runs will take, from those that are finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter
from statistics import fmean
from typing import Any

from evenstream.run.config import RunConfig
from evenstream.run.metrics_file import Metrics
from evenstream.text import MethodText

_same_place = attrgetter("stream", "network", "device")
_same_length = attrgetter("stream", "batch", "batch_schedule", "tasks", "epochs")


def _same_method(config: RunConfig) -> tuple[Any, ...]:
    return MethodText.read(config.method).name, *_same_place(config)


def _same_work(config: RunConfig) -> tuple[Any, ...]:
    return *_same_method(config), config.batch, config.replay_batch, config.eval_every


def _anything(config: RunConfig) -> None:
    return None


class Estimate:
    """Learns from finished runs how long others will take."""

    def __init__(self, runs: Iterable[tuple[RunConfig, Metrics]] = ()) -> None:
        self._seconds: dict[Any, list[float]] = defaultdict(list)
        self._steps: dict[Any, list[float]] = defaultdict(list)
        for config, metrics in runs:
            self.add(config, metrics)

    def add(self, config: RunConfig, metrics: Metrics) -> None:
        """Take a finished run into account, unless its file does not say how long it took."""
        steps, *parts = map(metrics.number, ("steps", "train_seconds", "eval_seconds"))
        known = [part for part in parts if part is not None]
        if not steps or len(known) < len(parts):
            return
        seconds = sum(known) / steps
        for alike in (_same_work, _same_method, _same_place, _anything):
            self._seconds[alike(config)].append(seconds)
        for alike in (_same_length, _anything):
            self._steps[alike(config)].append(steps)

    def seconds(self, config: RunConfig, done: int = 0, *, guess: bool = False) -> float | None:
        """How long the rest of a run takes after `done` steps; None if nothing is known.

        Args:
            config: the run.
            done: how many steps of it are made.
            guess: for a run that no finished one is like, take the mean of the others.
        """
        each = _first(self._seconds, config, _same_work, _same_method)
        steps = _first(self._steps, config, _same_length)
        if guess:
            each = each or _first(self._seconds, config, _same_place, _anything)
            steps = steps or _first(self._steps, config, _anything)
        return None if each is None or steps is None else each * max(steps - done, 0)


def wall_seconds(runs: Iterable[float | None], at_once: int) -> float | None:
    """How long runs take with this many at a time; None if the time of one is unknown."""
    each = list(runs)
    known = [seconds for seconds in each if seconds is not None]
    if len(known) < len(each):
        return None
    return max(sum(known) / at_once, max(known, default=0.0))


def in_words(seconds: float) -> str:
    """A duration: 40 s, 12 min, 3 h 20 min, 4 d 2 h."""
    minutes = round(seconds / 60)
    if seconds < 99:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def _first(known: Mapping[Any, list[float]], config: RunConfig, *likeness: Any) -> float | None:
    """The mean over the runs of the closest likeness that there are runs of."""
    for alike in likeness:
        found = known.get(alike(config))
        if found:
            return fmean(found)
    return None
