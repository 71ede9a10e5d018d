"""Replaces the test samples by part of the training samples, for choosing settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenstream.data import Dataset
from evenstream.data.dataset import Inputs
from evenstream.data.samples import Indices
from evenstream.errors import InputError
from evenstream.streams.stream import stream_generator


def with_validation(dataset: Dataset, percentage: int, seed: int) -> Dataset:
    """The data set with this percentage of each class held out from training, for testing.

    No test samples are left. A class keeps at least one sample for training and, if it has two or
    more, gives up at least one.
    """
    held_out = _drawn(dataset.y_train, percentage, seed)
    if not held_out.any():
        raise InputError(f"{dataset.name}: no class has two training samples to hold one out of")
    train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    coarse = dataset.coarse
    if coarse is not None:
        coarse = replace(coarse, train=coarse.train[train], test=coarse.train[test])
    return replace(
        dataset,
        x_train=_rows(dataset.x_train, train),
        y_train=dataset.y_train[train],
        x_test=_rows(dataset.x_train, test),
        y_test=dataset.y_train[test],
        coarse=coarse,
    )


def _drawn(y: Indices, percentage: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    draw = stream_generator(seed, "validation")
    held_out = np.zeros(len(y), dtype=bool)
    for index in np.unique(y):
        rows = draw.permutation(np.flatnonzero(y == index))
        count = min(max(1, round(len(rows) * percentage / 100)), len(rows) - 1)
        held_out[rows[:count]] = True
    return held_out


def _rows(x: Inputs, rows: Indices) -> Inputs:
    return x[rows] if isinstance(x, np.ndarray) else x.take(rows)
