"""A virtual gradient step: the parameters as they would be after it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call


def virtual_parameters(network: nn.Module, loss: Tensor, lr: float) -> dict[str, Tensor]:
    """θ' = θ - lr·∇loss for every trainable parameter; neither network nor optimiser changes."""
    named = {name: p for name, p in network.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {
        name: p.detach() if gradient is None else p.detach() - lr * gradient
        for (name, p), gradient in zip(named.items(), gradients, strict=True)
    }


def losses_with(network: nn.Module, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Plain cross-entropy of each row under other parameters, without gradients."""
    with torch.no_grad():
        return F.cross_entropy(functional_call(network, parameters, (x,)), y, reduction="none")
