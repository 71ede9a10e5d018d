"""Moving averages of a classifier's weights, including head growth."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evenstream.core.classifier import Classifier, frozen_copy


def moved_average(average: nn.Module | None, network: Classifier, keep: float) -> Classifier:
    """The average after one more step; it starts as a copy and is then updated in place."""
    if average is None:
        return frozen_copy(network)
    assert isinstance(average, Classifier)
    average_into(average, network, keep)
    return average


@torch.no_grad()
def average_into(average: Classifier, network: Classifier, keep: float) -> None:
    """Replace a ← keep·a + (1 − keep)·w for every weight and BatchNorm statistic, in place.

    Head rows for new classes start with the network's initial weights. Integers (BatchNorm's batch
    count) are copied.
    """
    average.head.grow(network.head.out_features)
    average.width = network.width
    mine, theirs = (_tensors(each) for each in (average, network))
    floating = [name for name in mine if mine[name].is_floating_point()]
    torch._foreach_lerp_([mine[n] for n in floating], [theirs[n] for n in floating], 1 - keep)
    for name in mine.keys() - set(floating):
        mine[name].copy_(theirs[name])


def _tensors(network: Classifier) -> dict[str, Tensor]:
    """Weights and buffers by name; shared ones appear once."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}
