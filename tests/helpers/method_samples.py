"""Hand-made rows and steps, for the worked numbers of the methods' descriptions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from evenstream import CrossEntropy
from evenstream.core.classifier import Classifier
from evenstream.core.heads import GrowingHead
from evenstream.core.rows import Rows
from evenstream.core.step import Step
from tests.helpers.small_streams import DIM

EXACT = {"rtol": 0, "atol": 2e-6}


class Group:
    """Rows whose view is given; with the identity as network, the logits."""

    def __init__(self, x, y, **fields):
        self.x = torch.tensor(x, dtype=torch.float32, requires_grad=True)
        self.y, self.fields = torch.tensor(y, dtype=torch.int64), fields

    def __len__(self):
        return len(self.y)


class LabelledRows:
    """Only labels, for rules that look at nothing else."""

    def __init__(self, y):
        self.y = torch.tensor(y)

    def __len__(self):
        return len(self.y)


def step_of(*groups, **more):
    """What a loss reads, with the identity as network and plain cross-entropy."""
    return SimpleNamespace(
        incoming=groups[0], groups=groups, net=lambda x: x, ce=CrossEntropy().score,
        remember=lambda **fields: None, notes={}, n_classes=groups[0].x.shape[1],
        joint=lambda: (torch.cat([g.x for g in groups]), torch.cat([g.y for g in groups])),
        **more,
    )  # fmt: skip


def fixed_teacher(logits, features=None):
    """A teacher that gives these outputs, whatever it is asked."""
    return SimpleNamespace(
        network=nn.Identity(), known=logits.shape[1], outputs=lambda x: (features, logits)
    )


def assert_value(found, expected):
    torch.testing.assert_close(float(found.detach()), expected, rtol=0, atol=2e-6)


def softmax(z, weights=1.0):
    """Of rows of logits, in float64 and NumPy; a class counts as often as its weight says."""
    p = np.exp(np.asarray(z, dtype=np.float64)) * weights
    return p / p.sum(1, keepdims=True)


def numpy_loss(z, y, weights=1.0):
    """Cross-entropy of each row, without any code of the library or PyTorch."""
    return -np.log(softmax(z, weights)[np.arange(len(y)), y])


def linear(weight):
    """A classifier without bias on identity features."""
    weight = torch.tensor(weight, dtype=torch.float32)
    head = GrowingHead(weight.shape[1], seed=0, size=len(weight))
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.zero_()
    head.bias.requires_grad_(False)
    return Classifier(nn.Identity(), head, torch.float32)


def normed():
    """A module with BatchNorm but without dropout, whose extra forwards draw nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(DIM, 7), nn.BatchNorm1d(7), nn.ReLU())


def next_step(learner, x, labels):
    """The step that `learn` would make next, for calling one hook by itself."""
    y = torch.tensor([learner.label_map.get(label) for label in labels])
    rows = Rows(torch.from_numpy(x), y, learner.preprocess, learner.randomness.augment)
    return Step(learner, learner.composition.retrieval, rows, len(learner.labels))


def watch_groups(learner):
    """A list that gets, for every step from now on, its groups of training rows."""
    seen, loss = [], learner.method.loss

    def spied(step):
        seen.append(step.groups)
        return loss(step)

    learner.method.loss = spied
    return seen


def by_tasks(learner, stream, tasks):
    """Feed a stream cut into equal tasks, with boundaries."""
    size = len(stream) // tasks
    for task in range(tasks):
        learner.start_task()
        for x, labels in stream[task * size : (task + 1) * size]:
            learner.learn(x, labels)
        learner.end_task()
    return learner
