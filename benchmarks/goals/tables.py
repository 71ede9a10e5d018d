"""What `auto` costs on tables: its closed forms beside the network."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, alternate
from evenstream import Learner

GOAL, BATCH, MEMORY, CLASSES, ROWS = 10, 10, 1000, 7, 3000
COLUMNS = 30, 274
"""Up to 64 columns there are half as many random features."""


def lines(patience: Patience) -> Iterator[Line]:
    """With a full memory, after the first penalties were chosen; those come ever more rarely."""
    for columns in COLUMNS:
        auto, network = (_steps(method, columns) for method in ("auto", "er-las"))
        ratio = alternate(auto, network, patience, warm_up=1)
        yield Line(GOAL, f"auto step / er-las step, {columns} columns, batch {BATCH}", ratio)


def _steps(method: str, columns: int) -> parts.Call:
    learner = Learner(method, memory=MEMORY, seed=0)
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, columns, generator=draw)

    def learn(rows: int) -> None:
        y = torch.randint(CLASSES, (rows,), generator=draw)
        x = centres[y] / 2 + torch.randn(rows, columns, generator=draw)
        learner.learn(x, y.tolist())

    for _ in range(ROWS // parts.BATCH):
        learn(parts.BATCH)
    return lambda: learn(BATCH)
