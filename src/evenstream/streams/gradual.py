"""Gradual streams: one group of classes fades into the next, without boundaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenstream.data import Dataset
from evenstream.errors import InputError
from evenstream.streams.scenario import ClassGroups, Layout, task_of
from evenstream.streams.stream import stream_generator

_POINTS = 3000
"""Points in time for summing a group's weight, from the task before to the one after."""


@dataclass(frozen=True, kw_only=True)
class Gradual(ClassGroups):
    """Groups of classes fade into each other, without boundaries.

    Time runs from 0 to the number of groups. At time u, group i has the weight
    rise(u - i) - rise(u - i - 1), where `rise` goes from 0 to 1 around 0: the weights of all groups
    sum to 1. Each sample's time of arrival is drawn from its group's weight over time, and samples
    arrive in that order, each once. Stage i, the time from i to i + 1, is called a task elsewhere;
    it only determines when to evaluate.
    """

    boundaries: bool = False
    """Always false here."""
    width: float = 0.5
    """Length of a transition in tasks, above 0 and at most 1."""
    blend: Literal["linear", "sigmoid"] = "linear"
    """Shape of a transition; sigmoid goes from 2 % to 98 % over the given width."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.boundaries:
            raise InputError("a gradual stream has no boundaries; leave the option out")
        if not 0 < self.width <= 1:
            raise InputError(f"width must lie above 0 and not above 1, got {self.width}")

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """The order of arrival, cut into stages."""
        whole = [task_of(dataset, group) for group in self.groups(dataset, seed)]
        draw = stream_generator(seed, "gradual")
        arrivals = np.empty(len(dataset.y_train))
        for group, task in enumerate(whole):
            clock = np.linspace(max(group - 1, 0), min(group + 2, len(whole)), _POINTS)
            passed = np.cumsum(self.weight(clock, group, len(whole)))
            moments = draw.random(len(task.train))
            arrivals[task.train] = np.interp(moments, passed / passed[-1], clock)
        order = np.argsort(arrivals, kind="stable")
        cuts = np.searchsorted(arrivals[order], np.arange(1, len(whole)))
        stages = np.split(order, cuts)
        tasks = [replace(task, train=stage) for task, stage in zip(whole, stages, strict=True)]
        return Layout(dataset, tasks, shuffle=False)

    def weight(self, time: NDArray[np.float64], group: int, n_groups: int) -> NDArray[np.float64]:
        """Weight of a group at some points in time."""
        begun = self._rise(time - group) if group > 0 else np.ones_like(time)
        ended = self._rise(time - group - 1) if group < n_groups - 1 else np.zeros_like(time)
        return begun - ended

    def _rise(self, time: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.blend == "linear":
            return np.clip(time / self.width + 0.5, 0, 1)
        risen: NDArray[np.float64] = 0.5 * (1 + np.tanh(4 * time / self.width))
        return risen
