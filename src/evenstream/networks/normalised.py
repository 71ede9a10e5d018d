"""A front for flat inputs of unknown scale, and networks behind it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evenstream.networks.feature_extractor import FeatureExtractor

HORIZON = 10_000
"""Rows that the statistics reach back over; before that they are plain averages."""
SETTLED = 100
"""Rows from which on a value far outside what was seen is cut before it is counted."""
FAR = 10.0
"""Standard deviations that are far outside."""
STRAIGHT = 3.0
"""Standard deviations up to which values are taken as they are; beyond, only their logarithm
counts."""


class Normalise(nn.Module):
    """Each column by its running mean and standard deviation, the same in training and prediction.

    Statistics are counted in training mode, incoming and replayed rows alike, and are part of the
    module's state. A column that does not vary becomes 0. Heavy tails neither blow up the scale
    (single values far outside count as ten standard deviations) nor dominate what comes out (beyond
    three standard deviations it grows like a logarithm).
    """

    rows: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(columns, dtype=torch.float64))
        self.register_buffer("variance", torch.zeros(columns, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """The normalised columns."""
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            values = x.double()
            if self.training:
                self._count(values)
            return bent((values - self.mean) / self._scale()).float()

    def _scale(self) -> Tensor:
        """Standard deviations; 1 for a column that varies by no more than float32's rounding."""
        deviation = self.variance.sqrt()
        return torch.where(deviation > 1e-6 * self.mean.abs(), deviation, 1.0)

    def _count(self, values: Tensor) -> None:
        if float(self.rows) >= SETTLED:
            reach = torch.where(self.variance > 0, FAR * self.variance.sqrt(), torch.inf)
            values = values.clamp(self.mean - reach, self.mean + reach)
        new = len(values) / min(float(self.rows) + len(values), HORIZON)
        new = min(new, 1.0)
        step = values.mean(0) - self.mean
        apart = new * (1 - new) * step.square()
        self.variance.mul_(1 - new).add_(new * values.var(0, correction=0)).add_(apart)
        self.mean.add_(new * step)
        self.rows.add_(len(values))


def bent(values: Tensor) -> Tensor:
    """Linear near 0, then a logarithm that continues with the same slope."""
    beyond = (values.abs() - STRAIGHT).clamp_min(0)
    return values.sign() * (values.abs().clamp_max(STRAIGHT) + beyond.log1p())


class Normalised(FeatureExtractor):
    """The normalised columns themselves: with a head on top, a linear model."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.num_features = math.prod(input_shape)
        self.normalise = Normalise(self.num_features)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        normalised: Tensor = self.normalise(x.flatten(1))
        return normalised


class NormalisedMLP(FeatureExtractor):
    """The normalised columns, and a hidden layer beside them."""

    def __init__(self, input_shape: tuple[int, ...], hidden: int = 256) -> None:
        super().__init__()
        columns = math.prod(input_shape)
        self.normalise = Normalise(columns)
        self.hidden = nn.Sequential(
            nn.Linear(columns, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.num_features = columns + hidden

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        normalised = self.normalise(x.flatten(1))
        return torch.cat([normalised, self.hidden(normalised)], 1)
