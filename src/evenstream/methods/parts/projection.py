"""A projection of the features, used only in training."""

from __future__ import annotations

from torch import nn

from evenstream.core.state import LearnerState
from evenstream.methods.base import Method

PROJECTION = "projection"


def add_projection(method: Method, learner: LearnerState, projection: nn.Module) -> None:
    """Give a method a projection that is trained like the learner's network."""
    method.modules[PROJECTION] = projection.to(learner.device)
    method.optimizers[PROJECTION] = learner.make_optimizer(projection.parameters())
