"""Linear equations with a matrix of second moments."""

from __future__ import annotations

import torch
from torch import Tensor

TRIES = 12


def solved(matrix: Tensor, right: Tensor) -> Tensor:
    """The solution for a matrix that is positive definite up to rounding."""
    return torch.cholesky_solve(right, factored(matrix))


def factored(matrix: Tensor) -> Tensor:
    """L with L·Lᵀ = the matrix, after adding a little to its diagonal if necessary."""
    nudge = torch.finfo(matrix.dtype).eps * (float(matrix.diagonal().mean()) or 1.0)
    factor: Tensor
    for _ in range(TRIES):
        factor, trouble = torch.linalg.cholesky_ex(matrix)
        if not int(trouble):
            break
        nudge *= 10
        matrix = matrix.clone()
        matrix.diagonal().add_(nudge)
    return factor
