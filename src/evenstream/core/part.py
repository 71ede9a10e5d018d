"""What methods, teachers and inference rules have in common: hooks, and state of their own."""

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
    """A task's training data, handed to task hooks only by protocols that may look twice."""

    raw: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Correction:
    """Rows that were learned, and are to be known by another label, or not at all."""

    raw: Tensor
    before: Tensor
    """The classes that they were learned as."""
    after: Tensor | None
    """Those that they have now; None: they are forgotten."""
    weights: Tensor
    """What each of them counted."""


class Part:
    """A part of a learner that the learner tells what happens, and whose state it keeps.

    The state is saved, resumed, and put back when a step is refused. Replace a tensor instead of
    changing it in place, so that the one before is still there to go back to.
    """

    moves_weights: ClassVar[bool] = False
    """Whether `after_step` changes its modules' weights in place (moving averages)."""
    follows: ClassVar[Mapping[str, Follows]] = {}
    """What its tensors and modules are, by name (`evenstream.edits`), so that they follow when
    classes are merged or removed, or stored samples forgotten. Classifiers and heads need no entry.
    A learner whose part has something else that is not named here refuses to do that."""
    may_refuse_late: ClassVar[bool] = False
    """Whether it may refuse a step whose weights are updated, which must then be put back.

    A class that writes a hook for that time (`after_step`) is taken to, unless it says False.
    """

    def __init_subclass__(cls) -> None:
        """Assume that what comes after the update can fail."""
        declare_late(cls, "after_step")

    def __init__(self) -> None:
        self.in_use = False
        """Whether a learner has it, whose state it then holds a part of."""
        self.inner: Sequence[Part] = ()
        """Parts that it consists of: the learner keeps their state, it tells them what happens."""
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.tensors: dict[str, Tensor] = {}

    @property
    def needs(self) -> frozenset[Need]:
        """What must be there for it; where that is always the same, a class attribute."""
        return frozenset()

    def on_setup(self, learner: LearnerState) -> None:
        """Once, when the network exists: make modules and optimisers."""

    def on_new_classes(self, learner: LearnerState, first: int) -> None:
        """Classes `first`, `first + 1`, ... have just been added to the head."""

    def on_task_start(self, learner: LearnerState, data: TaskData | None) -> Sequence[int] | None:
        """A task begins; data only in protocols that may look ahead.

        A method may return which rows of `data` to hold out from training.
        """
        return None

    def on_epoch_start(self, learner: LearnerState) -> None:
        """A pass over the task's data begins; online there is one in each task."""

    def before_update(self, step: Step) -> None:
        """The loss is computed, and nobody has learned from the batch yet: time to predict it."""

    def after_step(self, step: Step) -> None:
        """A method: after the update, before the memory takes in the batch (second steps).

        Teachers and rules: the last thing in a step.
        """

    def on_task_end(self, learner: LearnerState, data: TaskData | None) -> None:
        """A task is over; data only in protocols that may look twice."""

    def on_correction(self, learner: LearnerState, rows: Correction) -> None:
        """Rows that were learned get another label, or are forgotten: take that back if you can.

        Their stored copies are the learner's business.
        """

    def forget_class(self, index: int) -> None:
        """All samples of a class are forgotten; the class stays."""

    def why_not_edit(self) -> str | None:
        """Why labels and stored samples cannot be changed at this moment; None if they can."""
        return None

    def rebuild_module(self, learner: LearnerState, name: str) -> nn.Module:
        """An empty module to load a saved one into, if `on_setup` did not make it (teachers)."""
        return learner.copy_network()

    def says(self) -> str | None:
        """What `print(learner)` tells of its state; None for nothing."""
        return None

    def mark(self) -> Any:
        """Which modules, optimisers and tensors there are, and what changes in place."""
        own = dict(self.tensors), dict(self.modules), dict(self.optimizers)
        copied = copied_weights if self.moves_weights else copied_buffers
        return own, [(module, copied(module)) for module in self.modules.values()]

    def restore(self, mark: Any) -> None:
        """Put them back, growth of moving averages included."""
        (self.tensors, self.modules, self.optimizers), copies = mark
        for module, values in copies:
            if self.moves_weights:
                restore_weights(module, values)
            else:
                restore_buffers(module, values)

    def settle(self) -> None:
        """Nothing is kept for the mark."""

    def how(self, name: str) -> Follows | None:
        """What a tensor or module is; None if nobody has said so."""
        return self.follows.get(name)

    def _declared(self, name: str) -> Follows:
        found = self.how(name)
        if found is None:
            raise InputError(
                f"{type(self).__name__} keeps {name!r} and does not say what becomes of it when "
                f"classes or stored samples go: declare it, as in follows = "
                f"{{{name!r}: PerClass()}} or WHOLE (evenstream.edits)"
            )
        return found

    def regroup(self, classes: Regrouping) -> None:
        """Let tensors and heads follow; what was there before is left as it is, to go back to."""
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
        """Let tensors follow."""
        self.tensors = {n: self._declared(n).compacted(t, slots) for n, t in self.tensors.items()}

    def state(self) -> dict[str, Any]:
        """Modules, optimisers and tensors: saved and restored with the learner."""
        return {
            "modules": {name: dict(m.state_dict()) for name, m in self.modules.items()},
            "widths": {n: m.width for n, m in self.modules.items() if isinstance(m, Classifier)},
            "optimizers": {name: optimizer_state(o) for name, o in self.optimizers.items()},
            "tensors": dict(self.tensors),
        }

    def load_state(self, state: dict[str, Any], learner: LearnerState) -> None:
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


def declare_late(cls: type, *hooks: str) -> None:
    """Let a class that writes a hook of the time after the update say `may_refuse_late`."""
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
    """Put back what `copied_weights` copied; the module may have grown since."""
    if isinstance(module, Classifier):
        module.width = before.pop(WIDTH)
    module.load_state_dict(before)
