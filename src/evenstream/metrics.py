"""The numbers that sum up a run: accuracy, forgetting and where the predictions went.

Everything starts from the accuracy matrix: `a[i][j]` is the accuracy in percent on the test set
of task `j`, measured after the learner has finished task `i`. Entries that were not measured
(usually `j > i`) are `None` or NaN. A result that is not defined is `None`, so that every result
can be written to JSON as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenstream.errors import InputError

__all__ = [
    "as_matrix",
    "average_accuracies",
    "average_accuracy",
    "forgetting",
    "forgetting_mammoth",
    "prediction_share",
    "to_rows",
]

Matrix = Sequence[Sequence[float | None]] | NDArray[np.float64]


def as_matrix(matrix: Matrix) -> NDArray[np.float64]:
    """Return the accuracy matrix as an array, with NaN where nothing was measured.

    Rows may be shorter than the number of tasks: what is missing counts as not measured. There
    may be fewer rows than columns, as in a run that has not finished; rows without any value at
    the end are dropped.

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
    if measured.size == 0:
        raise InputError("the accuracy matrix has no values; finish at least one task first")
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

    The mean is over tasks, not over samples: a small test set weighs as much as a large one.
    """
    a = as_matrix(matrix)
    return [_mean(a[i, : i + 1]) for i in range(len(a))]


def average_accuracy(matrix: Matrix) -> float | None:
    """Return A_T, the mean accuracy on all tasks after the last one (higher is better)."""
    return average_accuracies(matrix)[-1]


def forgetting(matrix: Matrix, *, zero_padded: bool = True) -> float | None:
    """Return F_T, the final average forgetting in percentage points (lower is better).

    For each task but the last: the best accuracy it had after any of the tasks 1..T-1, minus its
    accuracy at the end; then the mean over tasks. This is the definition of the LAS paper. The
    end itself is no candidate for the best, so a task that improved at the end lowers F_T, even
    below zero.

    Args:
        matrix: the accuracy matrix.
        zero_padded: take the accuracy on a task that has not begun as 0, as the paper's code
            does. `False` uses the measured values where there are any, which is the paper's
            formula to the letter; it makes a difference only where tasks share classes.

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


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
