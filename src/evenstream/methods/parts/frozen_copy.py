"""A frozen copy of the network: teachers and previous models."""

from __future__ import annotations

import copy

from torch import nn

from evenstream.learner.classifier import Classifier


def frozen_copy(network: Classifier) -> Classifier:
    """A copy in eval mode without gradients; its head has just the classes seen so far.

    The head's size then says what the copy knew, and comes back from a checkpoint by itself.
    """
    twin = copy.deepcopy(network).eval()
    head = twin.head
    head.weight = nn.Parameter(head.weight[: network.width].detach().clone())
    head.bias = nn.Parameter(head.bias[: network.width].detach().clone())
    twin.width = None
    return twin.requires_grad_(False)
