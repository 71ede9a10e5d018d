"""Digests of what every method has become after a short stream, to compare two versions bit by bit.

`PYTHONPATH=OTHER/src python tools/method_digests.py > before`, the same with this version's `src`,
and `diff before after` shows which methods learn in another way, and what differs first. Names of
methods may be given, in any form (`er-las:tau=2@ncm`); without, it is all, with and without `-las`.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from evenstream import EvenstreamError, Learner
from evenstream.methods import METHODS

TASKS, STEPS, BATCH = 5, 40, 8


def main(names: list[str]) -> None:
    """Print a line for each method."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    every = [form for name in sorted(METHODS) for form in (name, f"{name}-las")]
    for name in names or every:
        try:
            learner = trained(name)
        except EvenstreamError as error:
            print(name, "refused:", error, flush=True)
        else:
            print(name, *digests(learner), flush=True)


def trained(method: str) -> Learner:
    """A learner after 200 steps on digits, two classes at a time, augmented, with BatchNorm."""
    torch.manual_seed(0)
    features = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1)]
    learner = Learner(
        method,
        nn.Sequential(*features, nn.Linear(288, 24)),
        memory=40,
        batch=BATCH,
        replay_batch=BATCH,
        lr=0.05,
        momentum=0.5,
        augment="crop+flip",
        dtype="float32",
    )
    for x, labels in tasks():
        learner.start_task(dict(Counter(labels)), (x, labels))
        for first in range(0, len(x), BATCH):
            learner.learn(x[first : first + BATCH], labels[first : first + BATCH])
        learner.end_task((x, labels))
    return learner


def tasks() -> Iterator[tuple[np.ndarray[Any, Any], list[int]]]:
    """Images and labels of each task, one of the classes rarer than the other."""
    images, labels = load_digits(return_X_y=True)
    draw = np.random.default_rng(0)
    for task in range(TASKS):
        kinds = draw.choice([2 * task, 2 * task + 1], STEPS * BATCH, p=[0.3, 0.7])
        rows = [draw.choice(np.flatnonzero(labels == kind)) for kind in kinds]
        x = (images[rows] * 15).astype(np.uint8).reshape(-1, 1, 8, 8).repeat(3, axis=1)
        yield x, [int(kind) for kind in kinds]


def digests(learner: Learner) -> Iterator[str]:
    """What a step changes, each as NAME=DIGEST."""
    for name, state in {
        "weights": learner.network.state_dict(),
        "optimizer": learner.optimizer.state_dict()["state"],
        "memory": learner.memory.state(),
        "window": learner.criterion.state(),
        "generators": learner.randomness.state(),
        "parts": [part.state() for part in learner.parts],
    }.items():
        digest = hashlib.sha256()
        for piece in pieces(state):
            digest.update(piece)
        yield f"{name}={digest.hexdigest()[:12]}"


def pieces(state: Any) -> Iterator[bytes]:
    """Every value of a tree, with its key."""
    if isinstance(state, Tensor):
        yield f"{state.dtype} {tuple(state.shape)}".encode()
        yield state.detach().flatten().contiguous().view(torch.uint8).numpy().tobytes()
    elif isinstance(state, dict):
        for key in sorted(state, key=str):
            yield str(key).encode()
            yield from pieces(state[key])
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from pieces(value)
    else:
        yield repr(state).encode()


if __name__ == "__main__":
    main(sys.argv[1:])
