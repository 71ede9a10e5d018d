"""A convolution that chooses how it is computed, depending on shapes and processor.

float32 on a CPU. With Winograd's algorithm (`winograd.py`), 3x3 kernels with many channels need a
quarter of the multiplications.

Weight gradients. On a CPU, oneDNN's kernel for the weight gradient is slow where an image has few
positions and many channels: the late stages of a ResNet, and with them most of the backward pass.
There the same gradient is faster as one product of two matrices: the output's gradient and the
patches of the input.

bfloat16. A CPU without instructions for it takes ten times as long as in float32. There, numbers
are rounded to bfloat16 and multiplied in float32, which is also what those instructions do.

Everywhere else, and on a GPU, this is `nn.Conv2d`. Measurements: docs/appendix/performance.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenstream.networks import winograd

Pair = tuple[int, int]

FEWEST_CHANNELS = 64
"""With fewer, mapping the tiles costs more than Winograd's algorithm saves."""
FEWEST_TILES = 32
"""With fewer, mapping the kernels does."""


class Convolution(nn.Conv2d):
    """`nn.Conv2d` without groups and dilation.

    The choice depends on shapes and the processor, never on timing: a resumed or repeated run must
    choose the same way.
    """

    own_kernels = True
    """Set this to False, for one layer or the whole class, to use PyTorch's convolution on the CPU
    too."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        """A square kernel without bias, padded so that stride 1 keeps the image's size."""
        super().__init__(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output map."""
        if x.device.type != "cpu" or x.ndim != 4 or not self.own_kernels:
            return super().forward(x)
        dtype = x.dtype
        if torch.is_autocast_enabled("cpu") and dtype != torch.float64:  # left unchanged
            dtype = torch.get_autocast_dtype("cpu")
        in_float32 = dtype == torch.bfloat16 and not has_bfloat16()
        if (in_float32 or dtype in (torch.float32, torch.float64)) and self._many_channels(x):
            wide = torch.float32 if in_float32 else dtype
            rounded = (factor.to(dtype).to(wide) for factor in (x, self.weight))
            return winograd.convolve(*rounded).to(dtype)
        by_matrix = self._needs_gradient() and self.few_positions(x)
        if not (by_matrix or in_float32):
            return super().forward(x)
        how = _How(_pair(self.stride), _pair(self.padding), by_matrix, in_float32)
        out: Tensor = _Convolve.apply(x.to(dtype), self.weight.to(dtype), how)  # type: ignore[no-untyped-call]
        return out

    def _many_channels(self, x: Tensor) -> bool:
        """Whether Winograd's algorithm saves more than its mapping costs."""
        return (
            self.kernel_size == (3, 3)
            and self.stride == (1, 1)
            and min(self.in_channels, self.out_channels) >= FEWEST_CHANNELS
            and winograd.count_tiles(x) >= FEWEST_TILES
            and len(x) > 1  # per-sample gradients (torch.func) use PyTorch's anyway
        )

    def _needs_gradient(self) -> bool:
        return torch.is_grad_enabled() and self.weight.requires_grad

    def few_positions(self, x: Tensor) -> bool:
        """Whether the matrix of patches is small compared with the work of the product."""
        (down, right), (height, width) = _pair(self.stride), x.shape[-2:]
        positions = -(-height // down) * -(-width // right)
        return self.kernel_size[0] > 1 and 4 * positions <= self.in_channels


@cache
def has_bfloat16() -> bool:
    """Whether oneDNN has bfloat16 kernels for this CPU; True if PyTorch cannot tell."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return True


@dataclass(frozen=True)
class _How:
    stride: Pair
    padding: Pair
    by_matrix: bool
    """The weight gradient as a matrix product."""
    in_float32: bool
    """Products and sums in float32, results rounded to the type of the input."""

    def compute(self, *tensors: Tensor) -> list[Tensor]:
        """The factors of a product, in the type used for computing."""
        return [tensor.float() if self.in_float32 else tensor for tensor in tensors]


class _Convolve(torch.autograd.Function):
    """conv2d; its weight gradient is (gradient of the output)ᵀ · (patches of the input).

    Supports backward mode to any order, also through torch.func, but no forward mode (`jvp`).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, how: _How) -> Tensor:
        dtype = x.dtype
        x, weight = how.compute(x, weight)
        with torch.autocast("cpu", enabled=False):
            return F.conv2d(x, weight, stride=how.stride, padding=how.padding).to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, _How], output: Tensor) -> None:
        x, weight, ctx.how = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        dtype, how = gradient.dtype, ctx.how
        x, weight, gradient = how.compute(*ctx.saved_tensors, gradient)
        for_x, for_weight = ctx.needs_input_grad[:2]
        with torch.autocast("cpu", enabled=False):
            x_gradient, weight_gradient, _ = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, how.stride, how.padding, (1, 1), False, (0, 0), 1,
                (for_x, for_weight and not how.by_matrix, False),
            )  # fmt: skip
            if for_weight and how.by_matrix:
                weight_gradient = gradient_by_matrix(x, gradient, weight.shape, how)
        return (
            x_gradient.to(dtype) if for_x else None,
            weight_gradient.to(dtype) if for_weight else None,
            None,
        )


def gradient_by_matrix(x: Tensor, gradient: Tensor, shape: torch.Size, how: _How) -> Tensor:
    """The weight gradient as one product of two matrices."""
    outputs, inputs, height, width = shape
    (down, right), (top, left) = how.stride, how.padding
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, left, left, top, top))
    windows = padded.unfold(1, height, down).unfold(2, width, right)
    patches = windows.permute(0, 1, 2, 4, 5, 3).reshape(-1, height * width * inputs)
    seen_by = gradient.permute(0, 2, 3, 1).reshape(-1, outputs)
    return (seen_by.t() @ patches).view(outputs, height, width, inputs).permute(0, 3, 1, 2)


def _pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else tuple(value)
