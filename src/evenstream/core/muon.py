"""Muon: steps along gradients whose directions all count alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.9
ROUNDS = 3
"""Newton-Schulz iterations; singular values then lie around 1, which is near enough."""
QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the iteration x ← a·x + b·x³ + c·x⁵ on singular values."""
BETAS = (0.9, 0.999)
TINY = 1e-8
OTHERS = 0.05
"""The rate of all other weights, as a share of that of matrices."""


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for matrices (Jordan et al., 2024), and AdamW for everything else.

    The momentum of a matrix is replaced by the nearest matrix whose singular values are all 1, so
    rare directions are learned as fast as common ones. A convolution is a matrix with a row for
    each output channel.

    Args:
        matrices: weights of at least two dimensions within a network.
        others: biases, scales and heads.
        lr: the rate of matrices.
        weight_decay: share of a weight that is subtracted at each step, times its rate.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
        lr: float,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        groups = [
            {"params": list(matrices), "lr": lr, "matrices": True},
            {"params": list(others), "lr": OTHERS * lr, "matrices": False},
        ]
        super().__init__(groups, {"weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step with the gradients that are there."""
        for group in self.param_groups:
            trained = [weight for weight in group["params"] if weight.grad is not None]
            if not trained:
                continue
            if group["weight_decay"]:
                torch._foreach_mul_(trained, 1 - group["lr"] * group["weight_decay"])
            gradients: list[Tensor] = [weight.grad for weight in trained]
            if group["matrices"]:
                self._turn(trained, gradients, group["lr"])
            else:
                self._adam(trained, gradients, group["lr"])

    def _kept(self, weights: list[nn.Parameter], name: str) -> list[Tensor]:
        """What is kept of each weight under a name; zeros at first."""
        for weight in weights:
            if name not in self.state[weight]:
                self.state[weight][name] = torch.zeros_like(weight)
        return [self.state[weight][name] for weight in weights]

    def _turn(self, weights: list[nn.Parameter], gradients: list[Tensor], lr: float) -> None:
        momenta = self._kept(weights, "momentum")
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # Nesterov's
        alike = defaultdict(list)
        for weight, update in zip(weights, ahead, strict=True):
            matrix = update.flatten(1)
            alike[matrix.shape].append((weight, matrix))
        for (rows, columns), pairs in alike.items():
            turned = orthogonal(torch.stack([matrix for _, matrix in pairs]))
            step = lr * max(1, rows / columns) ** 0.5
            for (weight, _), update in zip(pairs, turned, strict=True):
                weight.sub_(update.view_as(weight), alpha=step)

    def _adam(self, weights: list[nn.Parameter], gradients: list[Tensor], lr: float) -> None:
        means, squares = self._kept(weights, "exp_avg"), self._kept(weights, "exp_avg_sq")
        counts = [self.state[weight].setdefault("step", torch.tensor(0.0)) for weight in weights]
        torch._foreach_add_(counts, 1)
        torch._foreach_lerp_(means, gradients, 1 - BETAS[0])
        torch._foreach_mul_(squares, BETAS[1])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - BETAS[1])
        for weight, mean, square, count in zip(weights, means, squares, counts, strict=True):
            n = count.item()
            size = (square / (1 - BETAS[1] ** n)).sqrt_().add_(TINY)
            weight.addcdiv_(mean, size, value=-lr / (1 - BETAS[0] ** n))


def orthogonal(matrices: Tensor) -> Tensor:
    """Nearly the closest matrices (n, rows, columns) whose singular values are all 1.

    The iteration multiplies x by polynomials in x·xᵀ, which is small; x itself is needed only at
    the beginning and at the end.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True) + TINY)
    a, b, c = QUINTIC
    square = x @ x.mT
    one = torch.eye(square.shape[-1]).to(square).expand_as(square)
    turn = one
    for left in reversed(range(ROUNDS)):
        factor = torch.baddbmm(torch.add(a * one, square, alpha=b), square, square, alpha=c)
        turn = factor if turn is one else factor @ turn
        if left:
            square = factor @ square @ factor
    turned: Tensor = turn @ x
    return turned.mT if tall else turned
