"""A convolution that chooses how its weight gradient is computed, by its shape.

On a CPU, oneDNN's kernel for the weight gradient is slow where an image has few positions and many
channels: the late stages of a ResNet, and with them most of the backward pass. There the same
gradient is faster as one product of two matrices, the output's gradient and the patches it saw
(docs/performance.md has the measurements). Everywhere else, and on a GPU, this is `nn.Conv2d`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Pair = tuple[int, int]


class Convolution(nn.Conv2d):
    """`nn.Conv2d` without groups and dilation, with the faster of two weight gradients.

    Which one is decided by shapes alone, never by timing: a run that is resumed, or repeated, must
    make the same choices.
    """

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        """A square kernel without bias, padded so that stride 1 keeps the image's size."""
        super().__init__(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output map."""
        stride, padding = _pair(self.stride), _pair(self.padding)
        if not (self._needs_gradient() and x.device.type == "cpu" and self._few_positions(x)):
            return super().forward(x)
        weight = self.weight
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")
            x, weight = x.to(dtype), weight.to(dtype)
        out: Tensor = _MatrixWeightGradient.apply(x, weight, stride, padding)  # type: ignore[no-untyped-call]
        return out

    def _needs_gradient(self) -> bool:
        return torch.is_grad_enabled() and self.weight.requires_grad

    def _few_positions(self, x: Tensor) -> bool:
        """Whether the matrix of patches is small enough against the work of the product."""
        (down, right), (height, width) = _pair(self.stride), x.shape[-2:]
        positions = -(-height // down) * -(-width // right)
        return self.kernel_size[0] > 1 and 4 * positions <= self.in_channels


class _MatrixWeightGradient(torch.autograd.Function):
    """conv2d, whose weight gradient is (gradient of the output)ᵀ · (patches of the input)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> Tensor:
        return F.conv2d(x, weight, stride=stride, padding=padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Pair, Pair], output: Tensor) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:
            for_x = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1,
                (True, False, False),
            )[0]  # fmt: skip
        if ctx.needs_input_grad[1]:
            for_weight = _weight_gradient(x, gradient, weight.shape, ctx.stride, ctx.padding)
        return for_x, for_weight, None, None


def _weight_gradient(
    x: Tensor, gradient: Tensor, shape: torch.Size, stride: Pair, padding: Pair
) -> Tensor:
    outputs, inputs, height, width = shape
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(1, height, stride[0]).unfold(2, width, stride[1])
    patches = windows.permute(0, 1, 2, 4, 5, 3).reshape(-1, height * width * inputs)
    seen_by = gradient.permute(0, 2, 3, 1).reshape(-1, outputs)
    return (seen_by.t() @ patches).view(outputs, height, width, inputs).permute(0, 3, 1, 2)


def _pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else tuple(value)
