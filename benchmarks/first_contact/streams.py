"""The streams: intents in groups, posts by date, tables in their own order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.first_contact.rivals import Labels, Matrix

GROUPS = 10
BATCH = 10


@dataclass(frozen=True)
class Stream:
    """Rows in order of arrival, and test rows for the end."""

    name: str
    x: Matrix
    y: Labels
    x_test: Matrix | None = None
    y_test: Labels | None = None
    table: bool = False

    def batches(self) -> Iterator[tuple[Matrix, Labels]]:
        for first in range(0, len(self.x), BATCH):
            yield self.x[first : first + BATCH], self.y[first : first + BATCH]


def open_stream(name: str, folder: Path, seed: int) -> Stream:
    """New classes come in groups; posts and tables come in their own order."""
    rng = np.random.default_rng(seed)
    if name in _OF_RIVER:
        return Stream(name, *_river(name), table=True)
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        parts = {key: file[key] for key in file.files}
    x, y = parts["x"].astype(np.float64), parts["y"].astype(np.str_)
    if "x_test" in parts:
        groups = rng.permutation(np.unique(y))
        group = {label: place * GROUPS // len(groups) for place, label in enumerate(groups)}
        order = sorted(rng.permutation(len(x)), key=lambda row: group[y[row]])
        return Stream(name, x[order], y[order], parts["x_test"], parts["y_test"].astype(np.str_))
    if x.shape[1] < 100:
        return Stream(name, x, y, table=True)
    asked = rng.random(len(x)) < 0.2
    return Stream(name, x[~asked], y[~asked], x[asked], y[asked])


_OF_RIVER = {"image-segments": "ImageSegments", "banana": "Bananas", "phishing": "Phishing"}


def _river(name: str) -> tuple[Matrix, Labels]:
    from river import datasets

    rows = list(getattr(datasets, _OF_RIVER[name])())
    return np.array([[*x.values()] for x, _ in rows], dtype=np.float64), np.array(
        [str(y) for _, y in rows]
    )
