"""ResNets of basic blocks: ResNet18 for small images, ResNet18 and ResNet34 for large ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from evenstream.networks.convolution import Convolution
from evenstream.networks.feature_extractor import FeatureExtractor

RESNET18 = (2, 2, 2, 2)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut around them, then a ReLU unless it is switched off."""

    final_relu = True

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Convolution(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = Convolution(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()  # the identity where the shapes agree
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                Convolution(inputs, outputs, 1, stride),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's map."""
        out = relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out = out + self.shortcut(x)
        return relu(out, inplace=True) if self.final_relu else out


class ResNet(FeatureExtractor):
    """A ResNet as CIFAR papers use it: 3x3 stem with stride 1, no max-pooling, four stages.

    Args:
        input_shape: Channels, height and width of the images.
        blocks: Number of blocks per stage.
        width: Filters of the stem; the four stages have 1, 2, 4 and 8 times as many.
        zero_init: Start the last BatchNorm of each block with a scale of zero, so that the block
            starts as its shortcut.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        blocks: tuple[int, int, int, int] = RESNET18,
        width: int = 64,
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        self.num_features = 8 * width
        self.exits: tuple[int, ...] = ()
        """Number of features per stage, if all are requested."""
        self.conv1 = Convolution(input_shape[0], width, 3)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool: nn.Module = nn.Identity()
        self.layer1 = _stage(blocks[0], width, width, stride=1)
        self.layer2 = _stage(blocks[1], width, 2 * width, stride=2)
        self.layer3 = _stage(blocks[2], 2 * width, 4 * width, stride=2)
        self.layer4 = _stage(blocks[3], 4 * width, 8 * width, stride=2)
        if zero_init:
            for module in self.modules():
                if isinstance(module, BasicBlock):
                    nn.init.zeros_(module.bn2.weight)

    def use_exits(self) -> tuple[int, ...]:
        """From now on return the features of all four stages, lowest first."""
        if not self.exits:
            last = self.num_features
            self.exits = (last // 8, last // 4, last // 2, last)
            self.num_features = sum(self.exits)
        return self.exits

    @property
    def final_relu(self) -> bool:
        """Whether features are clipped at zero (default); cosine classifiers want their sign."""
        return self._last_block.final_relu

    @final_relu.setter
    def final_relu(self, value: bool) -> None:
        self._last_block.final_relu = value

    @property
    def _last_block(self) -> BasicBlock:
        block = self.layer4[-1]
        assert isinstance(block, BasicBlock)
        return block

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch."""
        stem = self.pool(relu(self.bn1(self.conv1(x)), inplace=True))
        pooled: list[Tensor] = []
        maps: Tensor = stem
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            maps = stage(maps)
            if self.exits or stage is self.layer4:
                pooled.append(maps.mean((2, 3)))
        return torch.cat(pooled, 1) if self.exits else pooled[0]


class ImageNetResNet(ResNet):
    """A ResNet as ImageNet papers use it: a 7x7 stem with stride 2, then 3x3 max-pooling.

    Layers, shapes and the distribution of initial weights are torchvision's; `networks/weights.py`
    reads its files.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        blocks: tuple[int, int, int, int] = RESNET18,
        zero_init: bool = False,
    ) -> None:
        super().__init__(input_shape, blocks, zero_init=zero_init)
        self.conv1 = Convolution(input_shape[0], 64, 7, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _stage(blocks: int, inputs: int, outputs: int, stride: int) -> nn.Sequential:
    rest = (BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1))
    return nn.Sequential(BasicBlock(inputs, outputs, stride), *rest)
