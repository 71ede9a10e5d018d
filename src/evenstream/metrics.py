"""The numbers that summarise a run: accuracy, forgetting and where the predictions went.

Many start from the accuracy matrix: `a[i][j]` is the accuracy in percent on the test set of task
`j`, measured after the learner has finished task `i`. Entries that were not measured (usually
`j > i`) are `None` or NaN. Others start from the predictions on test samples, as class indices. An
undefined result is `None`, so that every result can be written to JSON. `docs/reference/metrics.md`
has all formulas and conventions. Add your own with `register_metric`.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenstream.entries import whole_number
from evenstream.errors import InputError, MetricWarning, shown
from evenstream.measures import DERIVED, ENTRIES, Direction, Metric, OfMatrix
from evenstream.registry import check_function, check_texts, first_line

__all__ = [
    "Prequential",
    "area_under_accuracy",
    "as_matrix",
    "average_accuracies",
    "average_accuracy",
    "backward_transfer",
    "class_balanced_accuracy",
    "class_recalls",
    "expected_calibration_error",
    "forgetting",
    "forgetting_mammoth",
    "forward_transfer",
    "home_tasks",
    "own_metrics",
    "prediction_share",
    "recency_bias",
    "register_metric",
    "to_rows",
]

F = TypeVar("F", bound=OfMatrix)

NO_HOME = -1
"""In `home_tasks`: a class without training samples."""

Matrix = Sequence[Sequence[float | None]] | NDArray[np.float64]


TAKEN = frozenset(
    {
        *("accuracy_matrix", "average_accuracy", "class_balanced", "class_recall", "classes"),
        *("device", "dtype", "epochs", "format", "image_passes_prequential", "method", "minus"),
        *("online", "over_budget", "prediction_share"),
        *("prequential_recent", "prequential_window", "samples", "seed", "seeds"),
        *("single_class_steps", "skipped_test", "skipped_train", "status", "steps", "stream"),
        *("tasks", "threads", "train_seconds_after_task", "true_share", "untrained_accuracy"),
    }
)
"""Entries of `metrics.json` and summaries that are not metrics."""


def register_metric(
    name: str,
    *,
    words: str | None = None,
    better: Direction = "neither",
    unit: str = "",
    meaning: str | None = None,
    digits: int = 1,
) -> Callable[[F], F]:
    """Register a metric by name, for `metrics.json`, experiments' `metrics = [...]` and reports.

    Decorate a function that turns the accuracy matrix of a finished run into a number, or None if
    undefined. The matrix is square, in percent, with NaN for anything not measured. Reports also
    compute it for earlier runs.

    Args:
        name: made of letters, digits and _, such as `A_T`.
        words: its name in tables; by default `name`.
        better: which numbers are good: `higher`, `lower`, `zero` or `neither`.
        unit: `%`, `points`, ...
        meaning: one line of explanation; by default the first line of the docstring.
        digits: decimal places in tables.
    """
    check_texts(words=words, unit=unit, meaning=meaning)
    if not isinstance(better, str) or better not in get_args(Direction):
        raise InputError(
            f"better must be one of {', '.join(get_args(Direction))}, got {shown(better)}"
        )
    if not (type(digits) is int and 0 <= digits <= 15):
        raise InputError(f"digits must be a whole number of 0 to 15, got {shown(digits)}")
    if isinstance(name, str) and (name in TAKEN or name in DERIVED or name.endswith("_gain")):
        raise InputError(f"{name!r} is an entry of metrics.json or of reports; choose another name")

    def add(compute: F) -> F:
        check_function("metric", compute)
        line = first_line(compute) if meaning is None else meaning
        metric = Metric(name, words or name, better, unit, line, digits, compute=compute)
        ENTRIES.add(name, metric, compute)
        return compute

    return add


def own_metrics(matrix: Matrix | None) -> dict[str, float | None]:
    """Return the metrics that users have registered; `None` without a matrix.

    One that fails is `None` with a warning, so that no run is lost.
    """
    found: dict[str, float | None] = {}
    for name, metric in ENTRIES.items():
        if metric.compute is not None:
            found[name] = None if matrix is None else _computed(name, metric.compute, matrix)
    return found


def _computed(name: str, compute: OfMatrix, matrix: Matrix) -> float | None:
    try:
        value = compute(as_matrix(matrix))
        number = None if value is None else float(value)
    except Exception as error:  # in the user's function
        what = f"{type(error).__name__}: {error}"
        warnings.warn(f"metric {name} could not be computed: {what}", MetricWarning, stacklevel=2)
        return None
    return number if number is not None and math.isfinite(number) else None


def as_matrix(matrix: Matrix) -> NDArray[np.float64]:
    """Return the accuracy matrix as an array, with NaN where nothing was measured.

    Rows may be shorter than the number of tasks; missing values count as not measured. There may be
    fewer rows than columns, as in an unfinished run; trailing rows without any value are dropped.

    Raises:
        InputError: the matrix is empty, has more rows than columns, has a value that is not a
            percentage, or lacks a value it must have. A task may be left out altogether (its
            test set is empty), but one that is measured must be measured after every later task.
    """
    rows = [list(row) for row in matrix]
    if not rows or not any(rows):
        raise InputError("the accuracy matrix is empty; finish at least one task first")
    width = max(len(row) for row in rows)
    if len(rows) > width:
        raise InputError(
            f"the accuracy matrix has {len(rows)} rows but only {width} columns; "
            "row i must hold the accuracy on every task up to i"
        )
    result = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value is not None:
                result[i, j] = float(value)
    outside = np.isfinite(result) & ((result < 0) | (result > 100))
    if outside.any() or np.isinf(result).any():
        raise InputError("accuracies are percentages and must lie between 0 and 100")
    measured = np.flatnonzero(np.isfinite(result).any(axis=1))
    if measured.size:  # otherwise no task so far has test samples
        result = result[: measured[-1] + 1]
    for j in range(len(result)):
        missing = np.isnan(result[j:, j])
        if missing.any() and not missing.all():
            after = j + int(np.flatnonzero(missing)[0]) + 1
            raise InputError(
                f"the accuracy on task {j + 1} after task {after} is missing; measure every "
                "task seen so far after each task"
            )
    return result


def to_rows(matrix: Matrix) -> list[list[float | None]]:
    """Return the accuracy matrix as lists with `None` for NaN, ready to be written to JSON."""
    return [[None if np.isnan(v) else float(v) for v in row] for row in as_matrix(matrix)]


def average_accuracies(matrix: Matrix) -> list[float | None]:
    """Return A_i for every task i: the mean accuracy on tasks 1..i right after task i.

    The mean is over tasks, not samples: a small test set counts as much as a large one.
    """
    a = as_matrix(matrix)
    return [_mean(a[i, : i + 1]) for i in range(len(a))]


def average_accuracy(matrix: Matrix) -> float | None:
    """Return A_T, the mean accuracy on all tasks after the last one (higher is better).

    From a matrix of class-balanced accuracies it is A_T^cbl, the task mean.
    """
    return average_accuracies(matrix)[-1]


def forgetting(matrix: Matrix, *, zero_padded: bool = True) -> float | None:
    """Return F_T, the final average forgetting in percentage points (lower is better).

    For each task but the last: the best accuracy it had after any of the tasks 1..T-1, minus its
    accuracy at the end; then the mean over tasks. This is the definition of the LAS paper. The end
    itself is not a candidate for the best, so a task that improved at the end lowers F_T, even
    below zero.

    Args:
        matrix: the accuracy matrix.
        zero_padded: count the accuracy on a task that has not started as 0, as the paper's code
            does. `False` uses the measured values if there are any, which is the paper's formula to
            the letter; it only makes a difference if tasks share classes.

    Returns:
        The forgetting, or `None` for fewer than two tasks.
    """
    return _forgetting(as_matrix(matrix), zero_padded=zero_padded, last_row=False)


def forgetting_mammoth(matrix: Matrix) -> float | None:
    """Return the forgetting as the Mammoth library computes it.

    As `forgetting`, but the end counts as a candidate for the best accuracy too, so a task that
    improved contributes zero and the result is never negative.
    """
    return _forgetting(as_matrix(matrix), zero_padded=True, last_row=True)


def backward_transfer(matrix: Matrix) -> float | None:
    """Return BWT: how much each task but the last gained since it was learned, on average.

    In percentage points, negative where earlier tasks were forgotten; `None` for one task.
    """
    a = as_matrix(matrix)
    last = len(a) - 1
    return _mean(a[last, :last] - a.diagonal()[:last])


def forward_transfer(matrix: Matrix, untrained: Sequence[float | None]) -> float | None:
    """Return FWT: how much better a task is right before it is learned than by chance.

    Args:
        matrix: the full accuracy matrix; the entries right above the diagonal are used.
        untrained: the accuracy of an untrained network on each task.

    Returns:
        The mean over all tasks but the first, in percentage points; `None` if there is none or
        the tasks ahead were not measured.
    """
    a = as_matrix(matrix)
    if len(untrained) != a.shape[1]:
        raise InputError(f"{len(untrained)} untrained accuracies for {a.shape[1]} tasks")
    chance = np.array([np.nan if value is None else value for value in untrained], dtype=float)
    last = len(a) - 1
    return _mean(a.diagonal(offset=1)[:last] - chance[1 : last + 1])


def area_under_accuracy(points: Sequence[float | None], every: int, steps: int) -> float | None:
    """Return A_AUC, the area under the online accuracy curve divided by the number of steps.

    Args:
        points: the accuracy after every `every` steps; one that could not be measured is `None`.
        every: steps between two points (the paper's delta n).
        steps: training steps of the whole stream. Steps after the last point count as zero,
            following the paper's formula, and so does a point without a value.
    """
    if every < 1:
        raise InputError(f"every must be 1 or more, got {every}")
    if len(points) * every > steps:
        raise InputError(f"{len(points)} points, {every} steps apart, do not fit in {steps} steps")
    return sum(point or 0.0 for point in points) * every / steps if steps else None


def class_recalls(truth: ArrayLike, predicted: ArrayLike, n_classes: int) -> list[float | None]:
    """Return the percentage of recognised samples of each class; `None` for one without any."""
    right, total = _hits(truth, predicted, n_classes)
    return [100.0 * float(r) / int(n) if n else None for r, n in zip(right, total, strict=True)]


def class_balanced_accuracy(truth: ArrayLike, predicted: ArrayLike) -> float | None:
    """Return the mean recall in percent over the classes that are present in `truth`."""
    right, total = _hits(truth, predicted)
    present = total > 0
    return _mean(100.0 * right[present] / total[present])


def expected_calibration_error(
    confidence: ArrayLike, correct: ArrayLike, bins: int = 15
) -> float | None:
    """Return how far confidence and accuracy differ, in percentage points.

    Samples are sorted into `bins` of equal width by confidence (the highest probability given to
    any class); the result is the mean over bins of |accuracy - confidence|, weighted by samples.
    A value on the edge between two bins belongs to the lower one.
    """
    sure, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    if sure.shape != right.shape or sure.ndim != 1:
        raise InputError("confidence and correct must be flat and of the same length")
    if sure.size == 0:
        return None
    if not ((sure >= 0) & (sure <= 1)).all():
        raise InputError("confidence must lie between 0 and 1")
    place = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=right - sure, minlength=bins)
    return float(100 * np.abs(gaps).sum() / sure.size)


def home_tasks(counts: ArrayLike) -> list[int] | None:
    """Return the task that each class belongs to: the one with more than half of its samples.

    Args:
        counts: training samples of each class (columns) in each task (rows).

    Returns:
        A task for each class, `NO_HOME` for one without samples; `None` if some class has no task
        with more than half of its samples, since classes then cannot be called new or old.
    """
    table = np.asarray(counts)
    total, most = table.sum(axis=0), table.max(axis=0)
    if (2 * most <= total)[total > 0].any():
        return None
    return [int(task) for task in np.where(total > 0, table.argmax(axis=0), NO_HOME)]


def recency_bias(predicted: Sequence[float | None], true: Sequence[float | None]) -> float | None:
    """Return the share of predictions on the newest task's classes minus their true share.

    Above zero, the model favours what it learned last; 0 is ideal. `None` if no test sample
    belongs to the newest task.
    """
    if len(predicted) != len(true) or not true:
        raise InputError("give one predicted and one true share for each task")
    if predicted[-1] is None or not true[-1]:
        return None
    return predicted[-1] - true[-1]


class Prequential:
    """Accuracy of predictions made before learning each sample, overall and recent.

    Args:
        window: number of most recent samples to count; batches are not split, so the last batches
            with at least as many.
    """

    def __init__(self, window: int = 1000) -> None:
        self.window = window
        self.right = self.samples = 0
        self._recent: deque[tuple[int, int]] = deque()

    def add(self, right: int, samples: int) -> None:
        """Count a batch and how many of its rows were right."""
        self.right, self.samples = self.right + right, self.samples + samples
        self._recent.append((right, samples))
        held = sum(size for _, size in self._recent)
        while held - self._recent[0][1] >= self.window:
            held -= self._recent.popleft()[1]

    @property
    def overall(self) -> float | None:
        """The percentage of all samples; `None` before the first."""
        return 100 * self.right / self.samples if self.samples else None

    @property
    def recent(self) -> float | None:
        """The percentage of the last `window` samples."""
        total = sum(samples for _, samples in self._recent)
        return 100 * sum(right for right, _ in self._recent) / total if total else None

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"right": self.right, "samples": self.samples, "recent": list(self._recent)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.right, self.samples = whole_number(state, "right"), whole_number(state, "samples")
        self._recent = deque((int(right), int(samples)) for right, samples in state["recent"])


def prediction_share(predicted_tasks: ArrayLike, n_tasks: int) -> list[float | None]:
    """Return the fraction of predictions that fall on the classes of each task.

    Args:
        predicted_tasks: for each test sample, the index (from 0) of the task that the predicted
            class belongs to.
        n_tasks: the number of tasks.

    Returns:
        One fraction for each task; they sum to 1. All are `None` without a prediction.
    """
    if n_tasks < 1:
        raise InputError(f"n_tasks must be at least 1, not {n_tasks}")
    tasks = np.asarray(predicted_tasks)
    if tasks.size == 0:
        return [None] * n_tasks
    if tasks.ndim != 1 or not np.issubdtype(tasks.dtype, np.integer):
        raise InputError("predicted_tasks must be a flat sequence of whole task numbers")
    if tasks.min() < 0 or tasks.max() >= n_tasks:
        raise InputError(
            f"predicted_tasks has values from {tasks.min()} to {tasks.max()}; with {n_tasks} "
            f"tasks they must lie between 0 and {n_tasks - 1}"
        )
    counts = np.bincount(tasks, minlength=n_tasks)
    return [float(count) / tasks.size for count in counts]


def _forgetting(a: NDArray[np.float64], *, zero_padded: bool, last_row: bool) -> float | None:
    n = len(a)
    if n < 2:
        return None
    candidates = np.tril(np.nan_to_num(a)) if zero_padded else np.nan_to_num(a)
    best = candidates[: n if last_row else n - 1, : n - 1].max(axis=0)
    return _mean(best - a[n - 1, : n - 1])


def _hits(
    truth: ArrayLike, predicted: ArrayLike, n_classes: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the recognised samples of each class, and all of them."""
    true, guess = np.asarray(truth, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if true.shape != guess.shape or true.ndim != 1:
        raise InputError("truth and predicted must be flat and of the same length")
    total = np.bincount(true, minlength=n_classes)
    return np.bincount(true[true == guess], minlength=len(total)), total


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
