"""Batch sizes that change from task to task."""

from __future__ import annotations

import numpy as np

from evenstream.errors import InputError
from evenstream.options import Schedule as Schedule
from evenstream.streams.stream import stream_generator

_SMALLEST = 2


def batch_sizes(schedule: Schedule, batch: int, n_tasks: int, seed: int) -> list[int]:
    """The batch size of each task.

    Args:
        schedule: `constant`; `increase`, from 2 up to `batch` with evenly spaced exponents (2, 4,
            8, 16, 32 over five tasks), where a single task has `batch`; `decrease`, the same
            backwards; `random`, one integer from 2 to `batch` for each task.
        batch: the largest size.
        n_tasks: number of sizes.
        seed: seed for the random schedule.
    """
    if schedule == "constant":
        return [batch] * n_tasks
    if batch < _SMALLEST:
        raise InputError(
            f"a batch size schedule goes from {_SMALLEST} to the batch size, which is {batch}; "
            f"choose {_SMALLEST} or more, or the constant schedule"
        )
    if schedule == "random":
        draw = stream_generator(seed, "batch sizes")
        return [int(size) for size in draw.integers(_SMALLEST, batch, n_tasks, endpoint=True)]
    exponents = np.linspace(np.log2(batch), np.log2(_SMALLEST), n_tasks)
    falling = [round(2**exponent) for exponent in exponents.tolist()]
    return falling if schedule == "decrease" else falling[::-1]
