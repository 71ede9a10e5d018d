"""Tiny streams, modules and methods that several test folders share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Learner
from evenstream.errors import EvenstreamError

DIM = 5


def blobs(n: int, classes: int = 3, seed: int = 0, dim: int = DIM):
    """Rows around one centre a class; labels are class numbers, classes mixed."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(12345).normal(size=(64, dim)) * 2
    y = draw.integers(0, classes, n)
    x = centres[y] + draw.normal(size=(n, dim)) * 0.5
    return x.astype(np.float32), y.tolist()


def class_stream(steps: int = 12, batch: int = 4, classes: int = 4, seed: int = 0, dim: int = DIM):
    """Batches in which classes arrive two at a time, as in a class-incremental stream."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(12345).normal(size=(64, dim)) * 2
    found = []
    for step in range(steps):
        first = 2 * (step * (classes // 2) // steps)
        y = first + draw.integers(0, 2, batch)
        x = centres[y] + draw.normal(size=(batch, dim)) * 0.5
        found.append((x.astype(np.float32), [f"class {value}" for value in y]))
    return found


def images(n: int, side: int = 8, channels: int = 1, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (n, channels, side, side)).astype(np.uint8)


def small(method="er-las", model="mlp", **options) -> Learner:
    """A learner in float32, whatever the machine, with a small memory."""
    options = {"memory": 12, "replay_batch": 4, "lr": 0.05, "dtype": "float32", **options}
    return Learner(method, model, **options)


def feed(learner: Learner, stream) -> Learner:
    for x, labels in stream:
        learner.learn(x, labels)
    return learner


def parameters(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in learner.network.state_dict().items()}


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Equal names, dtypes, shapes and bits."""
    return one.keys() == two.keys() and all(
        one[name].dtype == two[name].dtype and torch.equal(one[name], two[name]) for name in one
    )


def refused(learner: Learner, action, error=EvenstreamError, match=None) -> str:
    """The action raises, and nothing that decides how the learner goes on has changed."""
    before, modules = learner.fingerprint(), dict(learner.method.modules)
    buffers = [b.clone() for b in learner.network.buffers()] if learner.built else []
    outside = torch.get_rng_state()
    with pytest.raises(error, match=match) as caught:
        action()
    assert learner.fingerprint() == before
    assert learner.method.modules == modules
    assert torch.equal(torch.get_rng_state(), outside)
    if learner.built:
        assert all(map(torch.equal, buffers, learner.network.buffers()))
        assert all(module.training for module in learner.network.modules())
    return str(caught.value)


class Noisy(nn.Module):
    """A user's own module with everything that has state: BatchNorm and dropout."""

    def __init__(self, dim: int = DIM, width: int = 7, seed: int = 3) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Linear(dim, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.4)
            )

    def forward(self, x):
        return self.layers(x)


class Bomb(Noisy):
    """Turns features into NaN on demand, after BatchNorm and dropout have done their work."""

    armed = False

    def forward(self, x):
        features = self.layers(x)
        return features * float("nan") if self.armed else features
