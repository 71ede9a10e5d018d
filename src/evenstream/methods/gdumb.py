"""GDumb: store greedily and evenly, and learn from scratch on the memory alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenstream.bounds import Positive
from evenstream.core.part import TaskData
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import Method, register
from evenstream.methods.parts.from_scratch import start_over, train_on_memory
from evenstream.options import StepRows
from evenstream.policies.storing import GreedyBalanced, Storing

INITIAL = "initial"


@register("gdumb")
@dataclass
class GDumb(Method):
    """Keep a greedily balanced memory; train a new network on it alone at the end of each task."""

    citation = "Prabhu et al., GDumb: Questioning Our Progress in Continual Learning, 2020"
    cost = "nothing per step; (F(M) + G(M)) · `epochs` at the end of each task"
    needs = frozenset({"boundaries", "memory"})
    trains_on_incoming = False
    why_not_las = "it learns from a balanced memory, where there is nothing to adjust"
    why_not_exits = "it trains at the ends of tasks, not in steps"

    epochs: Positive = 30
    """Passes over the memory, with a learning rate that falls to zero along a cosine."""

    def why_not_steps(self, rows: StepRows) -> str:
        """No step trains."""
        return "it trains at the ends of tasks only"

    def make_storing(self) -> Storing:
        """The greedy sampler."""
        return GreedyBalanced()

    def on_setup(self, learner: LearnerState) -> None:
        """Keep the weights from which every training starts."""
        self.modules[INITIAL] = learner.copy_network()

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """None."""
        return []

    def loss(self, step: Step) -> None:
        """Steps only store."""

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Start over, then learn from the memory."""
        if len(learner.memory):
            start_over(learner, self.modules[INITIAL])
            train_on_memory(learner, self.epochs)
