"""A normalising front end for flat inputs of unknown scale, and networks that use it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evenstream.networks.feature_extractor import FeatureExtractor

HORIZON = 10_000
"""Number of rows that the statistics reach back over; until then they are plain averages."""
SETTLED = 100
"""After this many rows, outliers are clipped before they are counted."""
FAR = 10.0
"""Standard deviations beyond which a value is an outlier."""
STRAIGHT = 3.0
"""Up to this many standard deviations, values pass unchanged; beyond, they grow like a
logarithm."""


class Normalise(nn.Module):
    """Normalises each column by its running mean and deviation, alike in training and prediction.

    Statistics are counted in training mode, incoming and replayed rows alike, and are part of the
    module's state. A column that does not vary becomes 0. Heavy tails neither inflate the scale
    (outliers count as ten standard deviations) nor dominate the output (beyond three standard
    deviations it grows like a logarithm).
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
    """Linear near 0, continued by a logarithm with the same slope."""
    beyond = (values.abs() - STRAIGHT).clamp_min(0)
    return values.sign() * (values.abs().clamp_max(STRAIGHT) + beyond.log1p())


class Normalised(FeatureExtractor):
    """The normalised columns themselves; with a head on top, a linear model."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.num_features = math.prod(input_shape)
        self.normalise = Normalise(self.num_features)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        normalised: Tensor = self.normalise(x.flatten(1))
        return normalised


class NormalisedMLP(FeatureExtractor):
    """The normalised columns, with hidden layers beside them."""

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
