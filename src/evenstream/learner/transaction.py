"""All or nothing: a step that is refused leaves no trace in the learner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from evenstream.learner.classifier import Classifier
from evenstream.learner.heads import GrowingHead

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner

Undo = Callable[[], None]


@contextmanager
def all_or_nothing(learner: Learner) -> Iterator[None]:
    """Run a block with the learner's own randomness; put everything back if it fails.

    What is small (counters, generators, BatchNorm buffers) is noted before; what is large
    (parameters, memory, window) is undone through `learner.undo` and the memory's journal, so a
    step that succeeds pays next to nothing. Where nothing can refuse a step once the weights are
    updated, they are not noted. So no interrupt may come from outside meanwhile: whoever uses this
    is a `one_step_at_a_time`.
    """
    network, optimizer, kind = learner.network, learner.optimizer, learner.input_kind
    parts = learner.parts
    module = network if network is not None else learner.model
    own_modules = [m for part in parts for m in part.modules.values()]
    modules = [m for m in (module, *own_modules) if isinstance(m, nn.Module)]
    buffers = [{n: b.clone() for n, b in m.named_buffers() if not is_lazy(b)} for m in modules]
    width = None if network is None else network.width
    n_labels, step, pending = len(learner.label_map), learner.step, learner.pending
    task = learner.task, learner.in_task, learner.task_counts
    generators, seen = learner.randomness.state(), learner.memory.seen
    own = [(dict(p.tensors), dict(p.modules), dict(p.optimizers)) for p in parts]
    moving = [m for part in parts if part.moves_weights for m in part.modules.values()]
    averages = [undo_averaging(module) for module in moving]
    learner.undo = {}
    learner.memory.begin()
    try:
        with learner.randomness.owned_global(), torch.enable_grad():
            yield
    except BaseException:
        for undo in [*reversed(learner.undo.values()), *averages]:
            undo()
        learner.memory.rollback(seen)
        learner.network, learner.optimizer, learner.input_kind = network, optimizer, kind
        if network is not None:
            network.width = width
        for owner, before in zip(modules, buffers, strict=True):
            for name, buffer in owner.named_buffers():
                if name in before:  # a lazy module has got its buffers meanwhile
                    buffer.copy_(before[name])
        learner.label_map.truncate(n_labels)
        learner.step, learner.pending = step, pending
        learner.task, learner.in_task, learner.task_counts = task
        learner.randomness.load_state(generators)
        for part, before_step in zip(parts, own, strict=True):
            part.tensors, part.modules, part.optimizers = before_step
        raise
    else:
        learner.memory.commit()
    finally:
        learner.undo = {}


def undo_update(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> Undo:
    """Undoes an optimiser step that is about to be made."""
    values = [p.detach().clone() for p in parameters]
    states = {p: _copied(optimizer.state[p]) for p in parameters if p in optimizer.state}

    def restore() -> None:
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)
                optimizer.state.pop(parameter, None)
        for parameter, state in states.items():
            optimizer.state[parameter] = state

    return restore


def undo_averaging(average: nn.Module) -> Undo:
    """Undoes a change of a moving average, which may have grown, that is about to be made."""
    width = average.width if isinstance(average, Classifier) else None
    weights = _copied(average.state_dict())

    def restore() -> None:
        average.load_state_dict(weights)
        if isinstance(average, Classifier):
            average.width = width

    return restore


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of tensors and other values by name."""
    return {key: v.clone() if isinstance(v, Tensor) else deepcopy(v) for key, v in state.items()}


def undo_growth(head: GrowingHead, optimizer: torch.optim.Optimizer) -> Undo:
    """Undoes a growth of the head that is about to happen (growth makes new tensors)."""
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
