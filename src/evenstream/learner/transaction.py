"""All or nothing: a step that is refused leaves no trace in the learner."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from evenstream.learner.classifier import GrowingHead

if TYPE_CHECKING:
    from evenstream.learner.learner import Learner

Undo = Callable[[], None]


@contextmanager
def all_or_nothing(learner: Learner) -> Iterator[None]:
    """Put everything back if the block fails, in the middle of a step too.

    What is small (counters, generators, BatchNorm buffers) is noted before; what is large
    (parameters, memory, window) is undone through `learner.undo` and the memory's journal, so a
    step that succeeds pays next to nothing.
    """
    network, optimizer, kind = learner.network, learner.optimizer, learner.input_kind
    module = network if network is not None else learner.model
    buffers = [(b, b.clone()) for b in module.buffers()] if isinstance(module, nn.Module) else []
    width = None if network is None else network.width
    n_labels, step, pending = len(learner.label_map), learner.step, learner.pending
    generators, seen = learner.randomness.state(), learner.memory.seen
    method = learner.method
    own = dict(method.tensors), dict(method.modules), dict(method.optimizers)
    learner.undo = []
    learner.memory.begin()
    try:
        yield
    except BaseException:
        for undo in reversed(learner.undo):
            undo()
        learner.memory.rollback(seen)
        learner.network, learner.optimizer, learner.input_kind = network, optimizer, kind
        if network is not None:
            network.width = width
        for buffer, before in buffers:
            buffer.copy_(before)
        learner.label_map.truncate(n_labels)
        learner.step, learner.pending = step, pending
        learner.randomness.load_state(generators)
        method.tensors, method.modules, method.optimizers = own
        raise
    else:
        learner.memory.commit()
    finally:
        learner.undo = []


def undo_update(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> Undo:
    """Undoes an optimiser step that is about to be made."""
    values = [p.detach().clone() for p in parameters]
    states = {p: copy.deepcopy(optimizer.state[p]) for p in parameters if p in optimizer.state}

    def restore() -> None:
        with torch.no_grad():
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)
                optimizer.state.pop(parameter, None)
        for parameter, state in states.items():
            optimizer.state[parameter] = state

    return restore


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
