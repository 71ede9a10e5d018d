"""A multilayer perceptron for tables, whose columns have different scales."""

from __future__ import annotations

import math

from torch import Tensor, nn

from evenstream.networks.feature_extractor import FeatureExtractor
from evenstream.networks.mlp import MLP

LIMIT = 10.0
"""Values are clipped at this many standard deviations, so that an outlier does not drown out the
rest."""


class StreamNorm(nn.BatchNorm1d):
    """BatchNorm whose running statistics are correct from the first batch on.

    They are the plain average over the first batches and then follow the stream slowly. BatchNorm's
    own rule would start from 0 and 1, and a column with values around a million would need hundreds
    of steps to get there.
    """

    slowest = 0.01

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each column."""
        if self.training:
            assert self.num_batches_tracked is not None
            self.momentum = max(1 / (int(self.num_batches_tracked) + 1), self.slowest)
        return super().forward(x)


class NormMLP(FeatureExtractor):
    """Normalise the columns by what was seen so far, then apply an MLP."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        columns = math.prod(input_shape)
        self.norm = StreamNorm(columns, affine=False)
        self.mlp = MLP((columns,))
        self.num_features = self.mlp.num_features

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        return self.mlp(self.norm(x.flatten(1)).clamp(-LIMIT, LIMIT))
