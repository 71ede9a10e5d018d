"""The 3x3 layers of the two ResNets against PyTorch's own: what `networks/convolution.py` gains."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, alternate
from evenstream.networks.convolution import Convolution

LAYERS = (
    *((width, width, size, 1) for width, size in ((512, 4), (256, 8), (128, 16), (64, 32))),
    *((width, 2 * width, size, 2) for width, size in ((256, 8), (128, 16), (64, 32))),
    *((width, width, size, 1) for width, size in ((160, 4), (80, 8), (40, 16), (20, 32))),
    *((width, 2 * width, size, 2) for width, size in ((80, 8), (40, 16), (20, 32))),
)
"""Channels in and out, height and width of an image, stride."""


def lines(patience: Patience) -> Iterator[Line]:
    """Forward and backward of each layer, and forward alone, in float32 and channels last."""
    for inputs, outputs, size, stride in LAYERS:
        layer = Convolution(inputs, outputs, 3, stride)
        layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = torch.rand(2 * parts.BATCH, inputs, size, size)
        x = x.to(memory_format=torch.channels_last).requires_grad_()
        plain = nn.Conv2d.forward.__get__(layer)
        name = f"{inputs} -> {outputs}, {size}x{size}, stride {stride}"
        ours, theirs = (_forward_and_backward(call, x) for call in (layer, plain))
        yield Line(1, f"layer / PyTorch's, {name}", alternate(ours, theirs, patience))
        ours, theirs = (_forward(call, x) for call in (layer, plain))
        yield Line(7, f"its forward / PyTorch's, {name}", alternate(ours, theirs, patience))


def _forward_and_backward(layer: parts.Layer, x: torch.Tensor) -> parts.Call:
    gradient = torch.rand_like(layer(x))

    def both() -> None:
        torch.autograd.backward(layer(x), gradient)

    return both


def _forward(layer: parts.Layer, x: torch.Tensor) -> parts.Call:
    def forward() -> None:
        with torch.no_grad():
            layer(x)

    return forward
