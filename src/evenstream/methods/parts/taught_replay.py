"""Algorithm 3: experience replay, and a teacher that the network must not drift away from."""

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
    """ER plus a distance to the teacher's features or logits: a subclass says which.

    Without a teacher, before the first task's end, it is ER. Logit Adjusted Softmax changes the
    classification only: the distance is one of raw outputs, on the same augmented rows.
    """

    cost = "F(b+m) + G(b+m) + F(b+m) of the teacher"
    weighs_rows = False  # the distance to the teacher would not

    weight: Factor = 1.0
    """Of the distance to the teacher."""
    averaging: Fading = 0.0
    """Share of the teacher's weights that is kept at each step, the rest comes from the network:
    a moving average needs no task boundaries. 0 means a copy of the network at each task's end."""

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
        """Mean over rows; the old logits are those of the classes that the teacher knows."""
        raise NotImplementedError
