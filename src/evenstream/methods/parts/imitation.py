"""Small networks that imitate a random one, each on a single class, for PEC."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


def imitation_network(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """Linear, LayerNorm, GELU, Linear: the architecture of both teacher and students."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(inputs, hidden),
        nn.LayerNorm(hidden),
        nn.GELU(),
        nn.Linear(hidden, outputs),
    )


def stack_weights(students: Sequence[nn.Module]) -> dict[str, Tensor]:
    """The weights of all students, one row each, so that one pass can run them all."""
    weights: dict[str, Any] = stack_module_state(list(students))[0]
    return {name: stacked.detach() for name, stacked in weights.items()}


def squared_errors(
    form: nn.Module, weights: dict[str, Tensor], x: Tensor, target: Tensor, one_by_one: bool = False
) -> Tensor:
    """Mean squared error of each input (row) by each student (column).

    `form` is any network of the students' architecture; its own weights are not used. One pass runs
    all students, or one after the other, which PyTorch can trace for any number of inputs.
    """
    if not one_by_one:
        form = copy.deepcopy(form)  # weights are swapped in for a while: not thread-safe

    def outputs(own: dict[str, Tensor]) -> Tensor:
        found: Tensor = functional_call(form, own, (x,))
        return found

    with torch.no_grad():
        if one_by_one:
            each = zip(*weights.values(), strict=True)
            found = torch.stack([outputs(dict(zip(weights, own, strict=True))) for own in each])
        else:
            found = vmap(outputs)(weights)
        return (found - target).square().mean(2).T


def remaining_share(seen: int, total: int) -> float:
    """Share of the learning rate left after `seen` of `total` samples: linear to 0.

    Samples beyond the announced number are learned at the rate of the last one.
    """
    return max(total - seen, 1) / max(total, 1)
