"""Optimisers by name, their growth with the head, and their state in a form that can be saved."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.errors import UnknownName, shown

OPTIMIZERS = ("sgd", "adam", "adamw")


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    *,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> torch.optim.Optimizer:
    """SGD (the paper's, without momentum by default), Adam or AdamW."""
    if name == "sgd":
        return torch.optim.SGD(parameters, lr, momentum=momentum, weight_decay=weight_decay)
    if name == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=weight_decay)
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr, weight_decay=weight_decay)
    raise UnknownName("optimizer", name, OPTIMIZERS)


@contextmanager
def learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> Iterator[None]:
    """Another learning rate for a while; the optimiser's own is back even if a step is refused."""
    before = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = lr
    try:
        yield
    finally:
        for group, own in zip(optimizer.param_groups, before, strict=True):
            group["lr"] = own


def replace_parameter(
    optimizer: torch.optim.Optimizer, old: nn.Parameter, new: nn.Parameter
) -> None:
    """Let the optimiser go on with a grown parameter; its state gets zeros for the new rows.

    The old parameter's state is left as it is, so that the growth can be undone.
    """
    for group in optimizer.param_groups:
        group["params"] = [new if p is old else p for p in group["params"]]
    state = optimizer.state.pop(old, None)
    if state is None:
        return
    added = new.shape[0] - old.shape[0]
    optimizer.state[new] = {key: _grown(value, old, added) for key, value in state.items()}


def _grown(value: Any, old: nn.Parameter, added: int) -> Any:
    if isinstance(value, Tensor) and value.shape == old.shape:
        return F.pad(value, (0, 0) * (value.ndim - 1) + (0, added))
    return copy.deepcopy(value)  # Adam counts its steps in a tensor, in place


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state with text keys only, as JSON and safetensors want it."""
    packed = optimizer.state_dict()
    packed["state"] = {str(index): entry for index, entry in packed["state"].items()}
    return packed


def load_optimizer_state(optimizer: torch.optim.Optimizer, packed: dict[str, Any]) -> None:
    """The inverse of `optimizer_state`; the optimiser shares no tensor with `packed`."""
    own = optimizer.state_dict()["param_groups"]
    pairs = zip(own, packed["param_groups"], strict=True)
    groups = [{n: _like(mine, n, saved) for n in {**mine, **saved}} for mine, saved in pairs]
    state = {int(index): copy.deepcopy(entry) for index, entry in packed["state"].items()}
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    for parameter, entries in optimizer.state.items():
        for name, value in entries.items():
            if value is not None and value.shape not in (parameter.shape, ()):
                raise ValueError(f"{name} has another shape than its parameter")


def _like(mine: dict[str, Any], name: str, saved: dict[str, Any]) -> Any:
    """An option of a saved optimiser, of the kind that it has here; PyTorch would take any."""
    value = saved.get(name, mine.get(name))
    if isinstance(mine.get(name), tuple) and isinstance(value, list):
        value = tuple(value)  # which JSON does not know
    most = 2**63 - 1 if type(value) is int else torch.finfo(torch.float32).max
    finite = not isinstance(value, (int, float)) or abs(value) <= most
    if not finite or (name in mine and _kind(value) is not _kind(mine[name])):
        raise TypeError(f"its {name} is {shown(value)}")
    return value


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)
