"""A small convolutional network for tiny images."""

from __future__ import annotations

from torch import Tensor, nn

from evenstream.networks.feature_extractor import FeatureExtractor


class ConvNet(FeatureExtractor):
    """Three blocks conv3x3-BatchNorm-ReLU, then the mean over the map.

    A block halves its map if both sides are longer than four pixels, so that even an 8x8 image
    keeps a 4x4 map.
    """

    def __init__(
        self, input_shape: tuple[int, ...], widths: tuple[int, ...] = (32, 64, 128)
    ) -> None:
        super().__init__()
        channels, height, width = input_shape
        layers: list[nn.Module] = []
        for filters in widths:
            layers += [
                nn.Conv2d(channels, filters, 3, padding=1, bias=False),
                nn.BatchNorm2d(filters),
                nn.ReLU(inplace=True),
            ]
            if min(height, width) > 4:
                layers.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
            channels = filters
        self.num_features = channels
        self.blocks = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        maps: Tensor = self.blocks(x)
        return maps.mean((2, 3))
