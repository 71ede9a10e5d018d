"""Recurring streams: groups of classes come back again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evenstream.data import Dataset
from evenstream.errors import InputError
from evenstream.streams.scenario import ClassGroups, Layout, deal, task_of
from evenstream.streams.stream import stream_generator


@dataclass(frozen=True, kw_only=True)
class Recurring(ClassGroups):
    """Groups of classes arrive in turn, round after round, each time with new samples.

    The samples of a class are spread evenly over its rounds. There are tasks times rounds stages;
    each is tested on all test samples of its group. By default the learner is not told where a
    stage ends: a returning group is not a new task.
    """

    boundaries: bool = False
    """Whether the learner is told where stages begin and end; if not, batches run across the
    ends."""
    rounds: int = 3
    """How often each group arrives."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise InputError(f"rounds must be 1 or more, got {self.rounds}")

    def arrange(self, dataset: Dataset, seed: int) -> Layout:
        """The groups in the same order in each round."""
        turn = deal(dataset.y_train, self.rounds, stream_generator(seed, "rounds"))
        whole = [task_of(dataset, group) for group in self.groups(dataset, seed)]
        tasks = [
            replace(task, train=task.train[turn[task.train] == number])
            for number in range(self.rounds)
            for task in whole
        ]
        return Layout(dataset, tasks)
