"""Bringing the seeds of each method together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import InputError
from evenstream.metrics import as_matrix, average_accuracies
from evenstream.report.runs import Run
from evenstream.run.metrics_file import Metrics, number

__all__ = ["Array", "Series", "collect"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """All seeds of one method.

    Attributes:
        name: the method.
        index: its place in the comparison, which decides its colour and marker.
        seeds: the seeds, in the order of the runs.
        accuracy: mean average accuracy after each task.
        accuracy_std: its deviation over seeds; NaN with one seed.
        matrix: mean accuracy matrix, NaN where nothing was measured.
        share: mean share of the predictions on each task's classes; NaN if not known.
        truth: true share of the samples; NaN if not known.
        seconds: mean training seconds up to the end of each task; NaN if not known.
        steps: the steps after which the online accuracy was measured; none if it was not.
        online: mean online accuracy at those steps.
        online_std: its deviation over seeds; NaN with one seed.
        recall: mean recall of each class of the data set, NaN if not known.
    """

    name: str
    index: int
    seeds: tuple[int, ...]
    accuracy: Array
    accuracy_std: Array
    matrix: Array
    share: Array
    truth: Array
    seconds: Array
    steps: Array
    online: Array
    online_std: Array
    recall: Array

    @property
    def n_tasks(self) -> int:
        """The number of tasks."""
        return len(self.accuracy)

    @property
    def has_share(self) -> bool:
        """Whether it is known where the predictions go."""
        return not np.isnan(self.share).all()

    @property
    def has_seconds(self) -> bool:
        """Whether it is known how long training took."""
        return not np.isnan(self.seconds).all()

    @property
    def has_recall(self) -> bool:
        """Whether the recall of at least one class is known."""
        return not np.isnan(self.recall).all()


def collect(runs: Iterable[Run]) -> list[Series]:
    """Bring the finished runs together, one series for each method in order of appearance.

    Raises:
        InputError: the runs are of different streams, have different numbers of tasks, or one
            seed of a method occurs twice.
    """
    finished = [run for run in runs if run.finished]
    _must_agree("streams", {run.metrics.stream for run in finished})
    _must_agree("numbers of tasks", {str(len(run.metrics.tasks)) for run in finished})
    groups: dict[str, list[Run]] = {}
    for run in finished:
        groups.setdefault(run.method, []).append(run)
    return [_series(name, i, members) for i, (name, members) in enumerate(groups.items())]


def _must_agree(what: str, found: set[str]) -> None:
    """Complain if there is more than one value."""
    if len(found) > 1:
        raise InputError(
            f"the runs have different {what} ({', '.join(sorted(found))}) and cannot be compared; "
            "report them separately"
        )


def _series(name: str, index: int, runs: Sequence[Run]) -> Series:
    """Average the runs of a method."""
    seeds = tuple(int(run.seed) for run in runs)
    if len(set(seeds)) < len(seeds):
        raise InputError(f"a seed of {name!r} occurs more than once; remove one of the runs")
    n = len(runs[0].metrics.tasks)
    accuracy = np.stack([_vector(_accuracies(run.metrics), n) for run in runs])

    def mean_of(key: str, size: int = n) -> Array:
        return _mean(np.stack([_vector(run.metrics.values(key), size) for run in runs]))

    curves = [run.metrics.online for run in runs]
    points = max(len(curve.accuracy) for curve in curves)
    online = np.stack([_vector(curve.accuracy, points) for curve in curves])
    return Series(
        name=name,
        index=index,
        seeds=seeds,
        accuracy=_mean(accuracy),
        accuracy_std=_std(accuracy),
        matrix=_mean(np.stack([as_matrix(run.metrics["accuracy_matrix"]) for run in runs])),
        share=mean_of("prediction_share"),
        truth=mean_of("true_share"),
        seconds=mean_of("train_seconds_after_task"),
        steps=curves[0].every * np.arange(1, points + 1, dtype=np.float64),
        online=_mean(online),
        online_std=_std(online),
        recall=mean_of("class_recall", max(len(run.metrics.classes) for run in runs)),
    )


def _accuracies(metrics: Metrics) -> Sequence[object]:
    """Return the averages as recorded, or worked out from the matrix if they were not."""
    recorded = metrics.values("average_accuracy")
    if len(recorded) == len(metrics.tasks):
        return recorded
    return average_accuracies(metrics["accuracy_matrix"])


def _vector(values: Sequence[object], n: int) -> Array:
    """Return the first n values, NaN where there is no number."""
    result = np.full(n, np.nan)
    for i, value in enumerate(values[:n]):
        known = number(value)
        result[i] = np.nan if known is None else known
    return result


def _mean(values: Array) -> Array:
    """Mean over the first axis without the NaNs, and without a warning where all are NaN."""
    known = ~np.isnan(values)
    total: Array = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _std(values: Array) -> Array:
    """Sample deviation over the first axis without the NaNs; NaN with fewer than two values."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    squares: Array = np.where(known, values - _mean(values), 0.0) ** 2
    return np.where(count > 1, np.sqrt(squares.sum(axis=0) / np.maximum(count - 1, 1)), np.nan)
