"""Whole tasks of a few rows, for methods that look at a task's data more than once."""

import numpy as np
import torch

from evenstream.core.memory import Y
from tests.helpers.small_streams import DIM, small

BATCH = 4


def task_data(task, per_class=10, classes=2, seed=0):
    """Rows of the classes of one task, mixed."""
    draw = np.random.default_rng([seed, task])
    centres = np.random.default_rng(12345).normal(size=(64, DIM)) * 2
    y = draw.permutation(np.repeat(np.arange(classes) + classes * task, per_class))
    x = centres[y] + draw.normal(size=(len(y), DIM)) * 0.5
    return x.astype(np.float32), y.tolist()


def train(learner, data, epochs=2, batch=BATCH):
    """All epochs of a task, without its end."""
    x, labels = data
    held = learner.start_task(data=data)
    left = np.delete(np.arange(len(labels)), held)
    for epoch in range(epochs):
        if epoch:
            learner.start_epoch()
        for start in range(0, len(left), batch):
            rows = left[start : start + batch]
            learner.learn(x[rows], [labels[row] for row in rows])
    return held


def after_tasks(method, tasks=2, **options):
    learner = small(method, **{"batch": BATCH, **options})
    for task in range(tasks):
        train(learner, task_data(task))
        learner.end_task(task_data(task))
    return learner


def stored(learner):
    """Class counts of the memory."""
    return torch.bincount(learner.memory.field(Y)).tolist()
