"""What methods, teachers and inference rules have in common: hooks, and state of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from evenstream.entries import whole_number
from evenstream.learner.classifier import Classifier
from evenstream.learner.optimizers import load_optimizer_state, optimizer_state

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner
    from evenstream.learner.step import Step


Need = Literal["boundaries", "label_counts", "memory", "second_pass", "shuffled"]
"""What a part may need: `boundaries`, start_task and end_task are called; `label_counts`,
start_task gets the task's label counts; `memory`, a capacity above 0; `second_pass`, the task
hooks get the task's data; `shuffled`, the stream arrives in random order."""


@dataclass(frozen=True)
class TaskData:
    """A task's training data, handed to task hooks only by protocols that may look twice."""

    raw: Tensor
    y: Tensor


class Part:
    """A part of a learner that the learner tells what happens, and whose state it keeps.

    The state is saved, resumed, and put back when a step is refused. Replace a tensor instead of
    changing it in place, so that the one before is still there to go back to.
    """

    moves_weights: ClassVar[bool] = False
    """Whether `after_step` changes its modules' weights in place (moving averages)."""

    def __init__(self) -> None:
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.tensors: dict[str, Tensor] = {}

    @property
    def needs(self) -> frozenset[Need]:
        """What must be there for it; where that is always the same, a class attribute."""
        return frozenset()

    def on_setup(self, learner: Learner) -> None:
        """Once, when the network exists: make modules and optimisers."""

    def on_new_classes(self, learner: Learner, first: int) -> None:
        """Classes `first`, `first + 1`, ... have just been added to the head."""

    def on_task_start(self, learner: Learner, data: TaskData | None) -> Sequence[int] | None:
        """A task begins; data only in protocols that may look ahead.

        A method may return which rows of `data` to hold out from training.
        """
        return None

    def on_epoch_start(self, learner: Learner) -> None:
        """A pass over the task's data begins; online there is one in each task."""

    def after_step(self, step: Step) -> None:
        """A method: after the update, before the memory takes in the batch (second steps).

        Teachers and rules: the last thing in a step.
        """

    def on_task_end(self, learner: Learner, data: TaskData | None) -> None:
        """A task is over; data only in protocols that may look twice."""

    def rebuild_module(self, learner: Learner, name: str) -> nn.Module:
        """An empty module to load a saved one into, if `on_setup` did not make it (teachers)."""
        return learner.copy_network()

    def state(self) -> dict[str, Any]:
        """Modules, optimisers and tensors: saved and restored with the learner."""
        return {
            "modules": {name: dict(m.state_dict()) for name, m in self.modules.items()},
            "widths": {n: m.width for n, m in self.modules.items() if isinstance(m, Classifier)},
            "optimizers": {name: optimizer_state(o) for name, o in self.optimizers.items()},
            "tensors": dict(self.tensors),
        }

    def load_state(self, state: dict[str, Any], learner: Learner) -> None:
        """Put modules, optimisers and tensors back."""
        for name, saved in state["modules"].items():
            if name not in self.modules:
                self.modules[name] = self.rebuild_module(learner, name)
            self.modules[name].load_state_dict(saved)
        for name, module in self.modules.items():
            if isinstance(module, Classifier):
                whole = state["widths"][name] is not None
                module.width = whole_number(state["widths"], name) if whole else None
        for name, optimizer in self.optimizers.items():
            load_optimizer_state(optimizer, state["optimizers"][name])
        self.tensors = {n: t.to(learner.device, copy=True) for n, t in state["tensors"].items()}
