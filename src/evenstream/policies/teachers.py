"""Teachers: an earlier or averaged network that a loss compares the student with."""

from __future__ import annotations

import torch
from torch import Tensor

from evenstream.core.averaging import moved_average
from evenstream.core.classifier import Classifier, frozen_copy
from evenstream.core.edits import ClassCount, by_name
from evenstream.core.part import Part, TaskData
from evenstream.core.state import LearnerState
from evenstream.core.step import Step

__all__ = [
    "MovingAverageTeacher",
    "PeriodicTeacher",
    "TaskEndTeacher",
    "Teacher",
]

NETWORK, KNOWN = "network", "known"


class Teacher(Part):
    """A frozen network in eval mode; None before the first copy."""

    follows = by_name({KNOWN: ClassCount()})

    @property
    def network(self) -> Classifier | None:
        """The network that teaches."""
        module = self.modules.get(NETWORK)
        assert module is None or isinstance(module, Classifier)
        return module

    @property
    def known(self) -> int:
        """Number of classes that the teacher has seen; its logits for others mean nothing."""
        return int(self.tensors[KNOWN]) if KNOWN in self.tensors else 0

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features, and logits for the classes it knows, without gradients."""
        assert self.network is not None
        with torch.no_grad():
            features = self.network.features(x)
            return features, self.network.logits(features)[:, : self.known]

    def follow(self, network: Classifier, n_classes: int) -> None:
        """Become a copy of the current network."""
        self.modules[NETWORK] = frozen_copy(network)
        self.tensors[KNOWN] = torch.tensor(n_classes)


class TaskEndTeacher(Teacher):
    """The network from the end of the last task (Algorithm 3)."""

    needs = frozenset({"boundaries"})

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Copy the network if the task had any data."""
        if learner.built:
            self.follow(learner.network, len(learner.labels))


class PeriodicTeacher(Teacher):
    """A copy of the network taken every `every` steps; needs no tasks."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every

    def after_step(self, step: Step) -> None:
        """Copy the network if it is time."""
        if step.number % self.every == 0:
            self.follow(step.network, step.n_classes)


class MovingAverageTeacher(Teacher):
    """A moving average of the network's weights; needs no tasks, and exists from the first step.

    Args:
        keep: share of the average kept at each step; the rest comes from the network.
    """

    moves_weights = True

    def __init__(self, keep: float) -> None:
        super().__init__()
        self.keep = keep

    def after_step(self, step: Step) -> None:
        """Move the average slightly towards the network; it starts as a copy."""
        self.modules[NETWORK] = moved_average(self.network, step.network, self.keep)
        self.tensors[KNOWN] = torch.tensor(step.n_classes)


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
