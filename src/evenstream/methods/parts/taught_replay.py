"""Algorithm 3: experience replay with a teacher that keeps the network from drifting away."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from evenstream.bounds import Factor, Fading
from evenstream.core.step import Step
from evenstream.methods.er import Replay
from evenstream.policies.teachers import MovingAverageTeacher, TaskEndTeacher, Teacher

FeaturesAndLogits = tuple[Tensor, Tensor]


@dataclass
class TaughtReplay(Replay):
    """ER plus a distance to the teacher's features or logits, defined by subclasses.

    Without a teacher, before the end of the first task, it is ER. Logit Adjusted Softmax changes
    only the classification loss: the distance is between raw outputs, on the same augmented rows.
    """

    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher"
    weighs_rows = False  # the distance to the teacher would ignore them

    weight: Factor = 1.0
    """Weight of the distance to the teacher."""
    averaging: Fading = 0.0
    """Share of the teacher's weights kept at each step, the rest coming from the network: a moving
    average, which needs no task boundaries. 0 means a copy of the network at the end of each
    task."""

    def make_teacher(self) -> Teacher:
        """The network at the end of the last task, or a moving average."""
        return MovingAverageTeacher(self.averaging) if self.averaging else TaskEndTeacher()

    def loss(self, step: Step) -> Tensor:
        """Mean classification loss over all rows plus the weighted distance."""
        x, y = step.joint()
        new = step.forward(x)
        loss = step.ce(new[1], y)
        assert self.teacher is not None
        if not self.teacher.known:
            return loss
        return loss + self.weight * self.distance(step, new, self.teacher.outputs(x))

    def distance(self, step: Step, new: FeaturesAndLogits, old: FeaturesAndLogits) -> Tensor:
        """Mean over rows; the old logits are for the classes that the teacher knows."""
        raise NotImplementedError
