"""The trained network with its optimiser, which exist once the first batch has arrived."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream.core.classifier import Classifier, regroup_head
from evenstream.core.edits import Compaction, Regrouping
from evenstream.core.inputs import InputKind
from evenstream.core.optimizers import (
    USUAL,
    Scheduler,
    load_optimizer_state,
    load_scheduler_state,
    make_plain,
    optimizer_state,
    replace_parameter,
    scheduler_state,
)
from evenstream.errors import EvenstreamError, calling

Undo = Callable[[], None]


class Trained:
    """A classifier, its optimiser and the kind of inputs it takes; empty before the first batch.

    `mark` records what is small (width, BatchNorm's buffers). Weights are large, so code that is
    about to change them records them, unless nothing can reject the step any more.

    Args:
        module: the user's own module, whose buffers may change while the network is being built.
    """

    def __init__(self, module: nn.Module | None) -> None:
        self._module = module
        self._built: tuple[Classifier, torch.optim.Optimizer, InputKind] | None = None
        self._scheduler: Scheduler | None = None
        self._undo: dict[Any, Undo] = {}

    @property
    def exists(self) -> bool:
        """Whether the network has been built."""
        return self._built is not None

    @property
    def input_kind(self) -> InputKind | None:
        """The kind of inputs that it takes, known from the first batch."""
        return None if self._built is None else self._built[2]

    @property
    def kind(self) -> InputKind:
        """The same; raises an error before the first batch."""
        return self._existing()[2]

    @property
    def network(self) -> Classifier:
        """The classifier."""
        return self._existing()[0]

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser of the classifier."""
        return self._existing()[1]

    def _existing(self) -> tuple[Classifier, torch.optim.Optimizer, InputKind]:
        if self._built is None:
            raise EvenstreamError("there is no network yet; the first batch builds it")
        return self._built

    def set(
        self,
        network: Classifier,
        optimizer: torch.optim.Optimizer,
        kind: InputKind,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Set the network and its optimiser."""
        self._built, self._scheduler = (network, optimizer, kind), scheduler

    def advance(self) -> None:
        """Step the scheduler, if there is one."""
        if self._scheduler is not None:
            with calling("the optimizer's scheduler"):
                self._scheduler.step()
            make_plain(self.optimizer)

    @property
    def may_refuse_late(self) -> bool:
        """Whether the optimiser or scheduler may fail halfway through a step."""
        return self._scheduler is not None or type(self.optimizer) not in USUAL

    def about_to_change(
        self, parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer
    ) -> None:
        """Record weights and their optimiser's state, so that `restore` can restore them."""
        what = (id(optimizer), *map(id, parameters))
        if what not in self._undo:  # the first record of a step is the one to restore
            self._undo[what] = _undo_update(optimizer, parameters)

    def grow(self, rows: int, width: int | None) -> None:
        """Grow the head to `rows` rows, and set the softmax to `width` classes (None: all)."""
        network, optimizer, _ = self._existing()
        head = network.head
        old = head.weight, head.bias
        if rows > head.out_features:
            self._undo["head", head.out_features] = _undo_growth(network, optimizer)
        head.grow(rows)
        for before, after in zip(old, (head.weight, head.bias), strict=True):
            if after is not before:
                replace_parameter(optimizer, before, after)
        network.width = width

    def regroup(self, classes: Regrouping) -> None:
        """Remove a class from the head."""
        if self._built is not None:
            network, optimizer, _ = self._built
            self._undo["head", "regrouped"] = _undo_growth(network, optimizer)
            regroup_head(network, classes, [optimizer])

    def compact(self, slots: Compaction) -> None:
        """Nothing to do: the network does not know the memory."""

    # ---- state ---------------------------------------------------------------------------------

    def mark(self) -> Any:
        """What exists, the softmax's width, and buffers; records weight changes from now on."""
        self._undo = {}
        module = self._module if self._built is None else self._built[0]
        width = None if self._built is None else self._built[0].width
        if self._built is not None:  # undone last: a rate may have been changed temporarily
            self._undo["options"] = _undo_options(self.optimizer, self._scheduler)
        return self._built, width, module, {} if module is None else copied_buffers(module)

    def restore(self, mark: Any) -> None:
        """Undo the records, latest first."""
        for undo in reversed(self._undo.values()):
            undo()
        self._built, width, module, buffers = mark
        if self._built is not None:
            self._built[0].width = width
        if module is not None:
            restore_buffers(module, buffers)
        self.settle()

    def settle(self) -> None:
        """Drop the records."""
        self._undo = {}

    def state(self) -> dict[str, Any] | None:
        """Weights, the optimiser's state and the kind of inputs."""
        if self._built is None:
            return None
        network, optimizer, kind = self._built
        scheduler = self._scheduler
        return {
            "input": asdict(kind),
            "weights": dict(network.state_dict()),
            "optimizer": optimizer_state(optimizer),
            "scheduler": None if scheduler is None else scheduler_state(scheduler),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Load weights and optimiser into an existing network with enough rows."""
        network, optimizer, _ = self._existing()
        load_optimizer_state(optimizer, state["optimizer"])
        if self._scheduler is not None:
            load_scheduler_state(self._scheduler, state["scheduler"])
        network.load_state_dict(state["weights"])


def copied_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's buffers, except those that a lazy module has not created yet."""
    return {name: b.clone() for name, b in module.named_buffers() if not is_lazy(b)}


def restore_buffers(module: nn.Module, before: dict[str, Tensor]) -> None:
    """Restore copied buffers."""
    for name, buffer in module.named_buffers():
        if name in before:  # a lazy module has created its buffers since
            buffer.copy_(before[name])


def copied_state(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of tensors and other values by name."""
    return {key: v.clone() if isinstance(v, Tensor) else deepcopy(v) for key, v in state.items()}


def _undo_update(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> Undo:
    """Undoes an optimiser step that is about to be made."""
    values = [p.detach().clone() for p in parameters]
    states = {p: copied_state(optimizer.state[p]) for p in parameters if p in optimizer.state}
    groups = _copied_options(optimizer)

    def restore() -> None:
        rates = [group["lr"] for group in optimizer.param_groups]  # perhaps temporarily changed
        _restore_options(optimizer, groups)
        for group, lr in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)
                optimizer.state.pop(parameter, None)
        for parameter, state in states.items():
            optimizer.state[parameter] = state

    return restore


def _copied_options(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The groups without their parameters; some optimisers count in them."""
    return [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]


def _restore_options(optimizer: torch.optim.Optimizer, before: list[dict[str, Any]]) -> None:
    for group, options in zip(optimizer.param_groups, before, strict=True):
        parameters = group["params"]
        group.clear()
        group.update(params=parameters, **options)


def _undo_options(optimizer: torch.optim.Optimizer, scheduler: Scheduler | None) -> Undo:
    """Restores the options of an optimiser's groups, and the scheduler that changes them."""
    before = None if scheduler is None else scheduler_state(scheduler)
    groups = _copied_options(optimizer)

    def rewind() -> None:
        if scheduler is not None and before is not None:
            load_scheduler_state(scheduler, before)
        _restore_options(optimizer, groups)

    return rewind


def _undo_growth(network: Classifier, optimizer: torch.optim.Optimizer) -> Undo:
    """Undoes an upcoming change of the head's rows (which creates new tensors)."""
    head = network.head
    weight, bias = head.weight, head.bias
    groups = [list(group["params"]) for group in optimizer.param_groups]
    states = {p: optimizer.state[p] for p in (weight, bias) if p in optimizer.state}

    def shrink() -> None:
        for grown in (head.weight, head.bias):
            optimizer.state.pop(grown, None)
        head.weight, head.bias = weight, bias
        for group, parameters in zip(optimizer.param_groups, groups, strict=True):
            group["params"] = parameters
        for parameter, state in states.items():
            optimizer.state[parameter] = state

    return shrink
