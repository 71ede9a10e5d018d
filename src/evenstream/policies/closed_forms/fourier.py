"""Random Fourier features under linear discriminant analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from evenstream.bounds import Factor, Share
from evenstream.policies.closed_forms.discriminant import discriminant, discriminant_of_rows
from evenstream.policies.closed_forms.form import Solution
from evenstream.policies.closed_forms.random_features import RandomFeatures
from evenstream.policies.closed_forms.sums import Sums


@dataclass
class FourierDiscriminant(RandomFeatures):
    """Random features of a Gaussian kernel, then normal classes that share a covariance."""

    gamma: Factor = 1.0
    """Of the kernel exp(-γ·|x-y|²/d) on the scaled rows, which have d columns."""
    shrinkage: Share = 0.0
    """How far the covariance is shrunk towards its diagonal; 0: chosen by oracle approximation."""

    def columns(self, features: Tensor) -> Tensor:
        """√(2/D)·cos(w·x + b): their inner product is the kernel, on average."""
        rows = self.scaled(features)
        frequencies = self.projection
        angles = rows @ frequencies * math.sqrt(2 * self.gamma / rows.shape[1])
        phases = 2 * torch.pi * self.tensors[self.OFFSET].double()
        return math.sqrt(2 / self.width) * torch.cos(angles + phases)

    def solve(self, sums: Sums, strength: float | None = None) -> Solution:
        """Log-likelihoods of the classes, without what they share."""
        return discriminant(sums, self.shrinkage)

    def solve_rows(
        self, columns: Tensor, labels: Tensor, weights: Tensor, strength: float | None = None
    ) -> Solution:
        """The same while there are fewer rows than columns."""
        if len(columns) >= columns.shape[1]:
            return super().solve_rows(columns, labels, weights)
        return discriminant_of_rows(columns, labels, weights, self.shrinkage)
