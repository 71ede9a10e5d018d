"""Optimisers by name or by a factory, their growth with the head, and their state for saves."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.core import muon
from evenstream.errors import InputError, shown
from evenstream.numerals import LARGEST_FLOAT32, plain_number
from evenstream.registry import Registry, check_function

Groups = Mapping[str, list[nn.Parameter]]
"""Parameters by what they belong to: `backbone`, `head` and `method` (its own modules). A method's
modules have their own optimiser, so either the first two are empty or the third is."""
Scheduler = torch.optim.lr_scheduler.LRScheduler
Made = torch.optim.Optimizer | tuple[torch.optim.Optimizer, Scheduler]
OptimizerFactory = Callable[[Groups], Made]
"""Creates an optimiser, or a pair of one and a scheduler that is stepped with it."""


Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def _without_compiler(kind: type[Kind]) -> type[Kind]:
    """The same optimiser, whose methods do not load PyTorch's compiler at their first call.

    Loading it takes about as long as loading PyTorch, and steps that are not compiled only ask it
    whether they are. The arithmetic is that of the methods within the wrappers.
    """
    names = ("step", "zero_grad", "add_param_group", "state_dict", "load_state_dict")
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    plain["step"] = torch.no_grad()(plain["step"])
    return type(kind.__name__, (kind,), {**plain, "__qualname__": kind.__name__})


SGD = _without_compiler(torch.optim.SGD)
Adam = _without_compiler(torch.optim.Adam)
AdamW = _without_compiler(torch.optim.AdamW)
Muon = _without_compiler(muon.Muon)
USUAL = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, SGD, Adam, AdamW, Muon)
"""Optimisers whose state per weight is known, and whose steps do not fail."""


class NamedOptimizer(Protocol):
    """A named factory that takes the learner's options."""

    def __call__(self, groups: Groups, *, lr: float, momentum: float, weight_decay: float) -> Made:
        """Create the optimiser."""
        ...


N = TypeVar("N", bound=NamedOptimizer)
OPTIMIZERS: Registry[NamedOptimizer] = Registry("optimizer")


def register_optimizer(name: str) -> Callable[[N], N]:
    """Register an optimizer factory by name, for `Learner(optimizer=...)` and runs."""

    def add(make: N) -> N:
        check_function("optimizer", make)
        OPTIMIZERS.add(name, make)
        return make

    return add


@register_optimizer("sgd")
def sgd(groups: Groups, *, lr: float, momentum: float, weight_decay: float) -> Made:
    """SGD, as in the paper; without momentum by default."""
    return SGD(every(groups), lr, momentum=momentum, weight_decay=weight_decay)


@register_optimizer("adam")
def adam(groups: Groups, *, lr: float, momentum: float, weight_decay: float) -> Made:
    """Adam; ignores momentum."""
    return Adam(weights := every(groups), lr, weight_decay=weight_decay, fused=_fits(weights))


@register_optimizer("adamw")
def adamw(groups: Groups, *, lr: float, momentum: float, weight_decay: float) -> Made:
    """AdamW; ignores momentum."""
    return AdamW(weights := every(groups), lr, weight_decay=weight_decay, fused=_fits(weights))


@register_optimizer("muon")
def orthogonalised(groups: Groups, *, lr: float, momentum: float, weight_decay: float) -> Made:
    """Muon for the backbone's matrices, AdamW at a twentieth of the rate for all other weights."""
    if not _fits(every(groups)):
        raise InputError("muon cannot train complex weights; use adamw")
    matrices = [weight for weight in groups.get("backbone", ()) if weight.ndim > 1]
    chosen = set(map(id, matrices))
    others = [weight for weight in every(groups) if id(weight) not in chosen]
    return Muon(matrices, others, lr, weight_decay=weight_decay)


def _fits(weights: list[nn.Parameter]) -> bool | None:
    """Whether PyTorch can update all weights in one pass (`fused`), several times faster."""
    return all(weight.is_floating_point() for weight in weights) or None


PLAIN = (sgd, adam, adamw, orthogonalised)
"""The factories whose optimisers make each step with the learner's own rate."""


def every(groups: Groups) -> list[nn.Parameter]:
    """All parameters, for optimisers that treat them alike."""
    return [parameter for group in groups.values() for parameter in group]


def checked(made: Made) -> tuple[torch.optim.Optimizer, Scheduler | None]:
    """Check what a factory has returned."""
    optimizer, scheduler = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(optimizer, torch.optim.Optimizer) or not isinstance(
        scheduler, Scheduler | None
    ):
        raise InputError(
            "the factory of an optimizer must return a torch optimizer, or a pair of one and a "
            f"torch scheduler (not ReduceLROnPlateau), got {shown(made)}"
        )
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise InputError("ReduceLROnPlateau needs a loss, which schedulers do not receive here")
    if scheduler is not None and scheduler.optimizer is not optimizer:
        raise InputError("the scheduler must belong to the optimizer that is returned with it")
    if isinstance(optimizer, _WITHOUT_USE):
        raise InputError(f"{type(optimizer).__name__} cannot make the steps of a learner")
    make_plain(optimizer)
    return optimizer, scheduler


_WITHOUT_USE = (torch.optim.LBFGS, torch.optim.SparseAdam)
"""LBFGS evaluates the loss repeatedly by itself; SparseAdam needs sparse gradients."""


def make_plain(optimizer: torch.optim.Optimizer) -> None:
    """Turn the options of all groups into plain numbers; reject what a save cannot hold.

    A learning rate may be a NumPy number, a fraction, or a tensor that a scheduler would modify in
    place.
    """
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name != "params":
                group[name] = _plain_option(name, value)


def _plain_option(name: str, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_plain_option(name, each) for each in value)
    number = plain_number(value)
    if isinstance(number, int) and abs(number) >= 2**63:
        number = float(number) if abs(number) < LARGEST_FLOAT32 else math.inf
    plain = value if number is None else number
    if not isinstance(plain, str | int | float | None) or not _is_finite(plain):
        raise InputError(
            f"the optimizer's {name} is {shown(value)}; it must be a number that float32 can hold, "
            "text, a boolean or None"
        )
    return plain


def _is_finite(value: Any) -> bool:
    most = 2**63 - 1 if type(value) is int else LARGEST_FLOAT32
    return not isinstance(value, (int, float)) or abs(value) <= most


def scheduler_state(scheduler: Scheduler) -> dict[str, Any]:
    """The part of a scheduler's state that changes between steps: numbers, texts and lists of them.

    Everything else (milestones, functions) is restored when the factory creates the scheduler
    again.
    """
    return {name: _plain(v) for name, v in scheduler.state_dict().items() if _plain(v) is not _NOT}


def load_scheduler_state(scheduler: Scheduler, state: dict[str, Any]) -> None:
    """The inverse of `scheduler_state`."""
    scheduler.load_state_dict(copy.deepcopy(state))  # some modify the given one


_NOT = object()


def _plain(value: Any) -> Any:
    """A copy of a value without anything that a file cannot hold; `_NOT` if nothing is left."""
    if isinstance(value, list):
        inner = [_plain(each) for each in value]
        return _NOT if _NOT in inner else inner
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            return _NOT
        return {name: _plain(each) for name, each in value.items() if _plain(each) is not _NOT}
    return value if isinstance(value, str | int | float | None) else _NOT


@contextmanager
def learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> Iterator[None]:
    """Use a different learning rate for a while, and restore it even if a step is rejected."""
    before = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = lr
    try:
        yield
    finally:
        for group, own in zip(optimizer.param_groups, before, strict=True):
            group["lr"] = own


def replace_parameter(
    optimizer: torch.optim.Optimizer,
    old: nn.Parameter,
    new: nn.Parameter,
    kept: Tensor | None = None,
) -> None:
    """Replace a parameter by one with more rows; the optimiser's state gets zeros for new ones.

    `kept` lists the old rows that remain, if not all do. The old parameter's state is kept, so that
    the change can be undone.
    """
    for group in optimizer.param_groups:
        group["params"] = [new if p is old else p for p in group["params"]]
    state = optimizer.state.pop(old, None)
    if state is None:
        return
    rows = torch.arange(len(old)) if kept is None else kept
    for name, value in state.items():
        if isinstance(value, Tensor) and value.ndim and value.shape != old.shape:
            optimizer.state[old] = state
            raise InputError(
                f"what {type(optimizer).__name__} keeps of a weight ({name}) is of another shape, "
                "and cannot grow with the head; use another optimizer"
            )
    added = new.shape[0] - len(rows)
    optimizer.state[new] = {key: _grown(value, old, rows, added) for key, value in state.items()}


def _grown(value: Any, old: nn.Parameter, rows: Tensor, added: int) -> Any:
    if isinstance(value, Tensor) and value.shape == old.shape:
        return F.pad(value[rows.to(value.device)], (0, 0) * (value.ndim - 1) + (0, added))
    return copy.deepcopy(value)  # Adam counts its steps in a tensor, in place


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state with text keys only, as JSON and safetensors require."""
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
    if type(optimizer) in USUAL:
        _check_shapes(optimizer)


def _check_shapes(optimizer: torch.optim.Optimizer) -> None:
    for parameter, entries in optimizer.state.items():
        for name, value in entries.items():
            if value is not None and value.shape not in (parameter.shape, ()):
                raise ValueError(f"{name} has another shape than its parameter")


def _like(mine: dict[str, Any], name: str, saved: dict[str, Any]) -> Any:
    """An option of a saved optimiser, with the right type; PyTorch would accept any."""
    value = saved.get(name, mine.get(name))
    if name == "fused" and value is None:  # as in saves of earlier versions, which stay exact
        return None
    if isinstance(mine.get(name), tuple) and isinstance(value, list):
        value = tuple(value)  # unknown to JSON
    if isinstance(value, Tensor) and value.ndim == 0:  # as saved by earlier versions
        value = value.item()
    if not _is_finite(value) or (name in mine and _kind(value) is not _kind(mine[name])):
        raise TypeError(f"its {name} is {shown(value)}")
    return value


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)
