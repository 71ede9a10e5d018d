"""Counts, sums and second moments of rows: all that a closed form needs to know of a stream."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LEAST_SHARE = 1e-6
"""Least share of a column's variance that is assumed to lie within classes."""


@dataclass(frozen=True)
class Sums:
    """Sums of float64 rows, in any order; what was added can be subtracted again.

    Attributes:
        number: how many rows there are.
        counts: the sum of the weights of each class's rows.
        sums: the sum of the rows themselves, one for each class.
        squares: the sum over all rows of x·xᵀ, or of its diagonal only.
    """

    number: Tensor
    counts: Tensor
    sums: Tensor
    squares: Tensor

    @classmethod
    def nothing(cls, columns: int, *, whole: bool, device: torch.device) -> Sums:
        """No rows yet; `whole` keeps all second moments, not only those of single columns."""

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        squares = zeros(columns, columns) if whole else zeros(columns)
        return cls(zeros(), zeros(0), zeros(0, columns), squares)

    def plus(
        self, rows: Tensor, labels: Tensor, weights: Tensor | None = None, *, times: float = 1.0
    ) -> Sums:
        """With further rows, counted by their weights; `times=-1` subtracts them."""
        if not len(rows):
            return self
        new = max(int(labels.max()) + 1 - len(self.counts), 0)
        counts = torch.cat([self.counts, self.counts.new_zeros(new)])
        sums = torch.cat([self.sums, self.sums.new_zeros(new, self.sums.shape[1])])
        weights = torch.ones_like(rows[:, 0]) if weights is None else weights
        weighted = rows * weights[:, None]
        squares = rows.T @ weighted if self.squares.ndim == 2 else (rows * weighted).sum(0)
        return Sums(
            self.number + times * len(rows),
            counts.index_add_(0, labels, weights, alpha=times),
            sums.index_add_(0, labels, weighted, alpha=times),
            torch.add(self.squares, squares, alpha=times),
        )

    def without(self, index: int, *, shared: bool) -> Sums:
        """Without the rows of a class, of which only the sum is known.

        `shared`: the covariance within classes stays the same, as if it were that of the others.
        Otherwise the rows stay in the second moments, as rows of no class.
        """
        within = self.within()
        counts, sums = self.counts.clone(), self.sums.clone()
        counts[index], sums[index] = 0, 0
        kept = Sums(self.number, counts, sums, self.squares)
        if not shared:
            return kept
        weight = float(counts.sum())
        between = kept.means.T @ sums if within.ndim == 2 else (kept.means * sums).sum(0)
        return Sums(self.number, counts, sums, within * weight + between)

    def from_origin(self, shift: Tensor) -> Sums:
        """The same rows, with the origin moved by `shift`."""
        total, weight = self.sums.sum(0), self.counts.sum()
        sums = self.sums - self.counts[:, None] * shift
        if self.squares.ndim == 2:
            cross = torch.outer(shift, total)
            squares = self.squares - cross - cross.T + weight * torch.outer(shift, shift)
        else:
            squares = self.squares - 2 * shift * total + weight * shift.square()
        return Sums(self.number, self.counts, sums, squares)

    @property
    def rows(self) -> float:
        """How many rows there are."""
        return float(self.number)

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return float(self.counts.sum()) or 1.0

    @property
    def means(self) -> Tensor:
        """The mean of each class; 0 for one without rows."""
        return self.sums / torch.where(self.counts > 0, self.counts, 1.0)[:, None]

    def within(self) -> Tensor:
        """The variances or the covariance of rows about the mean of their class."""
        means = self.means
        if self.squares.ndim == 2:
            return (self.squares - means.T @ self.sums) / self.weight
        return ((self.squares - (means * self.sums).sum(0)) / self.weight).clamp_min(0)

    def total_variances(self) -> Tensor:
        """The variance of each column over all rows."""
        rows = self.weight
        squares = self.squares.diagonal() if self.squares.ndim == 2 else self.squares
        return (squares / rows - (self.sums.sum(0) / rows).square()).clamp_min(0)


def deviations(within: Tensor, total: Tensor) -> Tensor:
    """The standard deviation of each column, from its variances inside the classes and over all.

    A column that varies only between classes gets a thousandth of that; a constant one gets 1.
    """
    variances = torch.maximum(within, LEAST_SHARE * total)
    return torch.where(variances > 0, variances, 1.0).sqrt()


def no_bias(counts: Tensor) -> Tensor:
    """0 for each class that has rows; one without can never win."""
    return torch.where(counts > 0, 0.0, -torch.inf).double()
