"""No network: the inputs themselves are the features."""

from __future__ import annotations

import math

from torch import Tensor

from evenstream.networks.feature_extractor import FeatureExtractor


class Identity(FeatureExtractor):
    """Flatten the input, and nothing else."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.num_features = math.prod(input_shape)

    def forward(self, x: Tensor) -> Tensor:
        """Return the inputs as vectors."""
        return x.flatten(1)
