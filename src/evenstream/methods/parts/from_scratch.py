"""Trains a network on the memory alone, from its initial weights."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from evenstream.core.classifier import Classifier, frozen_copy
from evenstream.core.memory import X, Y
from evenstream.core.state import LearnerState


def start_over(learner: LearnerState, initial: nn.Module) -> None:
    """Give the network these weights, with rows for all classes, and a new optimiser."""
    assert isinstance(initial, Classifier)
    learner.about_to_change(list(learner.network.parameters()))
    fresh = frozen_copy(initial)
    fresh.head.grow(learner.network.head.out_features)
    learner.network.load_state_dict(fresh.state_dict())
    learner.renew_optimizers()


def train_on_memory(learner: LearnerState, epochs: int) -> None:
    """Train on the stored rows with cross-entropy; the learning rate falls along a cosine."""
    groups, memory = learner.optimizer.param_groups, learner.memory
    rates = [group["lr"] for group in groups]
    stored = memory.rows(torch.arange(len(memory)))
    for epoch in range(epochs):
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * (1 + math.cos(math.pi * epoch / epochs)) / 2
        order = torch.randperm(len(memory), generator=learner.randomness.method)
        for rows in torch.split(order, learner.options.batch):
            x = learner.preprocess.train(stored[X][rows], learner.randomness.augment)
            learner.update(F.cross_entropy(learner.network(x), stored[Y][rows]))
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate
