"""A repeatable split of labelled samples into training and test parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import DataError, InputError

DEFAULT_TEST_FRACTION = 0.2


def stratified_split(
    y: NDArray[np.int64], test_fraction: float, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose about `test_fraction` of each class for testing, at random but repeatably.

    A class of two samples or more gets at least one in each part; a single sample is kept for
    training. The same `y`, fraction and seed always give the same split.

    Args:
        y: Class index of each sample.
        test_fraction: Share of the samples to test on, above 0 and below 1.
        seed: Which of the possible splits to use.

    Returns:
        Positions of the training and of the test samples, each in increasing order.
    """
    if not 0 < test_fraction < 1:
        raise InputError(f"test_fraction must be above 0 and below 1, not {test_fraction}")
    if seed < 0:
        raise InputError(f"seed must not be negative, it is {seed}")
    rng = np.random.default_rng(seed)
    in_test = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        if len(members) < 2:
            continue
        n_test = min(max(round(len(members) * test_fraction), 1), len(members) - 1)
        in_test[rng.permutation(members)[:n_test]] = True
    if not in_test.any():
        raise DataError(
            "no test samples can be split off: every class has a single sample; "
            "add samples, or pass x_test and y_test yourself"
        )
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)
