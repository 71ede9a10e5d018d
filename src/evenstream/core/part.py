"""What methods, teachers and inference rules have in common: hooks and their own state."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from evenstream.core.classifier import Classifier, regroup_head
from evenstream.core.criterion import Need
from evenstream.core.edits import Compaction, Follows, Regrouping
from evenstream.core.heads import GrowingHead
from evenstream.core.optimizers import load_optimizer_state, optimizer_state
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.core.trained import copied_buffers, copied_state, restore_buffers
from evenstream.entries import whole_number
from evenstream.errors import InputError

WIDTH = "width"


@dataclass(frozen=True)
class TaskData:
    """A task's training data, passed to task hooks only by protocols that allow a second look."""

    raw: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Correction:
    """Learned rows that get another label or are forgotten."""

    raw: Tensor
    before: Tensor
    """The classes under which they were learned."""
    after: Tensor | None
    """Their new classes; None if they are forgotten."""
    weights: Tensor
    """The weight of each."""


class Part:
    """A part of a learner, which calls its hooks and keeps its state.

    The state is saved, resumed, and restored when a step is rejected. Replace a tensor instead of
    modifying it in place, so that the previous one can be restored.
    """

    moves_weights: ClassVar[bool] = False
    """Whether `after_step` modifies its modules' weights in place (moving averages)."""
    follows: ClassVar[Mapping[str, Follows]] = {}
    """Declares its tensors and modules by name (`evenstream.edits`), so that they follow when
    classes are merged or removed, or stored samples forgotten. Classifiers and heads need no entry.
    If a part has anything else that is not declared here, the learner rejects such edits."""
    may_refuse_late: ClassVar[bool] = False
    """Whether it may reject a step after the update, whose weights must then be restored.

    A class with a hook that runs then (`after_step`) is assumed to, unless it sets this to False.
    """

    def __init_subclass__(cls) -> None:
        """Assume that hooks after the update can fail."""
        declare_late(cls, "after_step")

    def __init__(self) -> None:
        self.in_use = False
        """Whether a learner is using it; it then holds part of that learner's state."""
        self.inner: Sequence[Part] = ()
        """Its sub-parts: the learner keeps their state, and this part calls their hooks."""
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.tensors: dict[str, Tensor] = {}

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs; a class attribute if that is always the same."""
        return frozenset()

    def on_setup(self, learner: LearnerState) -> None:
        """Called once, when the network exists: create modules and optimisers."""

    def on_new_classes(self, learner: LearnerState, first: int) -> None:
        """Called when classes `first`, `first + 1`, ... have just been added to the head."""

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> Sequence[int] | None:
        """Called when a task begins; data is only passed by protocols that allow it.

        A method may return the rows of `data` to hold out from training.
        """
        return None

    def on_epoch_start(self, learner: LearnerState) -> None:
        """Called when a pass over the task's data begins; online there is one per task."""

    def before_update(self, step: Step) -> None:
        """Called after the loss, before anything has learned from the batch: time to predict it."""

    def after_step(self, step: Step) -> None:
        """For a method: called after the update, before the memory takes in the batch.

        For teachers and rules: the last thing in a step.
        """

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """Called when a task is over; data is only passed by protocols that allow it."""

    def on_correction(self, learner: LearnerState, rows: Correction) -> None:
        """Called when learned rows get another label or are forgotten: undo them if possible.

        The learner takes care of their stored copies.
        """

    def forget_class(self, index: int) -> None:
        """Called when all samples of a class are forgotten; the class stays."""

    def why_not_edit(self) -> str | None:
        """Why labels and stored samples cannot be changed right now; None if they can."""
        return None

    def rebuild_module(self, learner: LearnerState, name: str) -> nn.Module:
        """An empty module to load a saved one into, if `on_setup` did not create it (teachers)."""
        return learner.copy_network()

    def says(self) -> str | None:
        """Its state in `print(learner)`; None for nothing."""
        return None

    def mark(self) -> Any:
        """The modules, optimisers and tensors, and copies of what changes in place."""
        own = dict(self.tensors), dict(self.modules), dict(self.optimizers)
        copied = copied_weights if self.moves_weights else copied_buffers
        return own, [(module, copied(module)) for module in self.modules.values()]

    def restore(self, mark: Any) -> None:
        """Restore them, including the growth of moving averages."""
        (self.tensors, self.modules, self.optimizers), copies = mark
        for module, values in copies:
            if self.moves_weights:
                restore_weights(module, values)
            else:
                restore_buffers(module, values)

    def settle(self) -> None:
        """Nothing to discard."""

    def how(self, name: str) -> Follows | None:
        """The declaration of a tensor or module; None if there is none."""
        return self.follows.get(name)

    def _declared(self, name: str) -> Follows:
        found = self.how(name)
        if found is None:
            raise InputError(
                f"{type(self).__name__} keeps {name!r} but cannot update it when classes or stored "
                f"samples are removed: declare it, as in follows = "
                f"{{{name!r}: PerClass()}} or WHOLE (evenstream.edits)"
            )
        return found

    def regroup(self, classes: Regrouping) -> None:
        """Update tensors and heads; the previous ones are left unchanged, to be restored."""
        regrouped = {n: self._declared(n).regrouped(t, classes) for n, t in self.tensors.items()}
        heads = [n for n, m in self.modules.items() if isinstance(m, Classifier | GrowingHead)]
        for name in self.modules.keys() - set(heads):
            self._declared(name)
        self.tensors = regrouped
        if heads:
            self.modules, self.optimizers = copy.deepcopy((self.modules, self.optimizers))
        for name in heads:
            module = self.modules[name]
            assert isinstance(module, Classifier | GrowingHead)
            regroup_head(module, classes, self.optimizers.values())

    def compact(self, slots: Compaction) -> None:
        """Update tensors."""
        self.tensors = {n: self._declared(n).compacted(t, slots) for n, t in self.tensors.items()}

    def state(self) -> dict[str, Any]:
        """Modules, optimisers and tensors, saved and restored with the learner."""
        return {
            "modules": {name: dict(m.state_dict()) for name, m in self.modules.items()},
            "widths": {n: m.width for n, m in self.modules.items() if isinstance(m, Classifier)},
            "optimizers": {name: optimizer_state(o) for name, o in self.optimizers.items()},
            "tensors": dict(self.tensors),
        }

    def load_state(self, state: dict[str, Any], learner: LearnerState) -> None:
        """Restore modules, optimisers and tensors."""
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


def declare_late(cls: type, *hooks: str) -> None:
    """Set `may_refuse_late` for classes with a hook that runs after the update."""
    for base in cls.__mro__:
        if "may_refuse_late" in vars(base):
            return
        if any(hook in vars(base) for hook in hooks):
            cls.may_refuse_late = True  # type: ignore[attr-defined]
            return


def copied_weights(module: nn.Module) -> dict[str, Any]:
    """A copy of all weights and buffers, and a classifier's width."""
    width = {WIDTH: module.width} if isinstance(module, Classifier) else {}
    return {**copied_state(module.state_dict()), **width}


def restore_weights(module: nn.Module, before: dict[str, Any]) -> None:
    """Restore what `copied_weights` copied; the module may have grown since."""
    if isinstance(module, Classifier):
        module.width = before.pop(WIDTH)
    module.load_state_dict(before)
