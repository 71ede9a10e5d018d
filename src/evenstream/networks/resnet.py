"""ResNet18 for small images."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from evenstream.networks.base import FeatureExtractor


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = _conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()  # the identity where the shapes agree
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's map."""
        out = relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        return relu(out + self.shortcut(x), inplace=True)


class ResNet18(FeatureExtractor):
    """ResNet18 as CIFAR papers use it: 3x3 stem with stride 1, no max-pooling, eight blocks.

    Args:
        channels: Channels of the images.
        width: Filters of the stem; the four stages have 1, 2, 4 and 8 times as many.
    """

    def __init__(self, channels: int, width: int = 64) -> None:
        super().__init__()
        self.num_features = 8 * width
        self.conv1 = _conv3x3(channels, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._stage(width, width, stride=1)
        self.layer2 = self._stage(width, 2 * width, stride=2)
        self.layer3 = self._stage(2 * width, 4 * width, stride=2)
        self.layer4 = self._stage(4 * width, 8 * width, stride=2)

    @staticmethod
    def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        stem = relu(self.bn1(self.conv1(x)), inplace=True)
        maps: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(stem))))
        return maps.mean((2, 3))
