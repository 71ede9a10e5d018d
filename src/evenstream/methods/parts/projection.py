"""A projection of the features, which only the training sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from evenstream.methods.base import Method

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner

PROJECTION = "projection"


def add_projection(method: Method, learner: Learner, projection: nn.Module) -> None:
    """Give a method a projection that is trained as the learner's network is."""
    method.modules[PROJECTION] = projection.to(learner.device)
    method.optimizers[PROJECTION] = learner.make_optimizer(projection.parameters())
