"""What the networks have in common."""

from __future__ import annotations

from torch import Tensor, nn

from evenstream.errors import InputError


class FeatureExtractor(nn.Module):
    """A network without a classifier: `(n, *input_shape)` in, `(n, num_features)` out.

    Attributes:
        num_features: Length of the feature vector.
    """

    num_features: int

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        raise NotImplementedError

    def use_exits(self) -> tuple[int, ...]:
        """From now on return the features of all stages; returns the number of each."""
        raise InputError(
            f"{type(self).__name__} has no stages to exit after; head=exits needs a ResNet"
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Return the features of a batch (`nn.Module`'s call, with its type)."""
        features: Tensor = super().__call__(x)
        return features
