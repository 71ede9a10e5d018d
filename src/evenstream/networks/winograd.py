"""Convolution with 3x3 kernels in a quarter of the multiplications (Winograd's minimal filtering).

Images are cut into tiles of 6x6 that overlap by 2; each gives 4x4 outputs. A linear map of the
tiles and one of the kernels turn the convolution of a tile into 36 products of single numbers,
where the plain sum has 144; over all channels and tiles these are 36 products of matrices.
F(4x4, 3x3) in Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.

Equal to the plain sum but for rounding, in float32 about 1e-5 of the largest number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

TILE = 4
"""Outputs of a tile, in each direction."""
SEEN = TILE + 2
"""Inputs of a tile, in each direction."""
AT_ONCE = 256
"""Tiles that are computed together: about as many as stay in the processor's cache."""

# In one direction: the maps of a tile's inputs, of a kernel, and of the products to the outputs.
_INPUTS = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_KERNEL = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
_OUTPUTS = (
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)

# In one direction: where a tile's six inputs lie among the places of the tiles' outputs. The inner
# four are in the tile's own place, the outer two in that of the tile before and of the one after.
# Each is (inputs, outputs, whose inputs, whose place).
_PLACES = (
    (slice(1, 5), slice(0, 4), slice(None), slice(None)),
    (slice(0, 1), slice(3, 4), slice(1, None), slice(None, -1)),
    (slice(5, 6), slice(0, 1), slice(None, -1), slice(1, None)),
)


def count_tiles(x: Tensor) -> int:
    """How many tiles these images have."""
    down, right = _grid(x)
    return len(x) * down * right


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """`F.conv2d(x, weight, padding=1)` for kernels of 3x3."""
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        out: Tensor = _Convolve.apply(x, weight)[0]  # type: ignore[no-untyped-call]
        return out
    return _outputs(x, _mapped_kernels(weight))


class _Convolve(torch.autograd.Function):
    """Returns the output, and what its gradients need: the mapped kernels and the mapped tiles.

    Backward mode to any order, also through torch.func; there is no forward mode (`jvp`).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        kernels, tiles = _mapped_kernels(weight), list[Tensor]()
        return _outputs(x, kernels, tiles), kernels, *tiles

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, Tensor | None]:
        x, weight, kernels, *tiles = ctx.saved_tensors
        for_x, for_weight = ctx.needs_input_grad
        if torch.is_grad_enabled():  # derivatives of the gradients are wanted: PyTorch's have some
            return _plain_gradients(gradient, x, weight, (for_x, for_weight, False))
        return _gradients(gradient, x, kernels, tiles, for_x, for_weight)


@torch.autocast("cpu", enabled=False)
def _mapped_kernels(weight: Tensor) -> Tensor:
    """Of each kernel 36 numbers: (36, outputs, inputs)."""
    outputs, inputs = weight.shape[:2]
    kernels = weight.permute(0, 2, 3, 1).reshape(outputs, 9, inputs)
    return (_map(_KERNEL, weight.dtype) @ kernels).transpose(0, 1)


@torch.autocast("cpu", enabled=False)
def _outputs(x: Tensor, kernels: Tensor, mapped: list[Tensor] | None = None) -> Tensor:
    """The output map. Of each part's tiles 36 numbers go to `mapped`: (36, tiles, inputs)."""
    (down, right), (outputs, inputs) = _grid(x), kernels.shape[1:]
    of_inputs, of_outputs = _map(_INPUTS, x.dtype), _map(_OUTPUTS, x.dtype)
    out = x.new_empty(len(x), down, TILE, right, TILE, outputs)
    some = _rows_at_once(x)
    for images, place in zip(x.split(some), out.split(some), strict=True):
        tiles = (of_inputs @ _cut(images)).view(SEEN**2, -1, inputs)
        found = of_outputs @ (tiles @ kernels.mT).view(SEEN**2, -1)
        found = found.view(TILE, TILE, len(images), down, right, outputs)
        place.copy_(found.permute(2, 3, 0, 4, 1, 5))
        if mapped is not None:
            mapped.append(tiles)
    return _joined(out, x)


@torch.autocast("cpu", enabled=False)
def _gradients(
    gradient: Tensor,
    x: Tensor,
    kernels: Tensor,
    mapped: list[Tensor],
    for_x: bool,
    for_weight: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the images and of the kernels: the transposed maps, from the last to the first."""
    (down, right), (outputs, inputs) = _grid(x), kernels.shape[1:]
    of_inputs, of_outputs = _map(_INPUTS, x.dtype), _map(_OUTPUTS, x.dtype)
    of_kernels = x.new_empty(SEEN**2, outputs, inputs)
    of_images = x.new_empty(len(x), down, TILE, right, TILE, inputs)
    some = _rows_at_once(x)
    padded = F.pad(
        gradient.permute(0, 2, 3, 1), (0, 0, 0, -x.shape[3] % TILE, 0, -x.shape[2] % TILE)
    )
    blocks = padded.view(len(x), down, TILE, right, TILE, outputs).split(some)
    for i, (block, place, tiles) in enumerate(
        zip(blocks, of_images.split(some), mapped, strict=True)
    ):
        products = of_outputs.t() @ block.permute(2, 4, 0, 1, 3, 5).reshape(TILE**2, -1)
        products = products.view(SEEN**2, -1, outputs)
        if for_weight:
            of_kernels.baddbmm_(products.mT, tiles, beta=min(i, 1))
        if for_x:
            found = of_inputs.t() @ (products @ kernels).view(SEEN**2, -1)
            _add_tiles(found.view(SEEN, SEEN, -1, down, right, inputs), place)
    of_weight = _map(_KERNEL, x.dtype).t() @ of_kernels.view(SEEN**2, -1)
    return (
        _joined(of_images, x) if for_x else None,
        of_weight.view(3, 3, outputs, inputs).permute(2, 3, 0, 1) if for_weight else None,
    )


def _plain_gradients(gradient: Tensor, x: Tensor, weight: Tensor, wanted: tuple[bool, ...]) -> Any:
    ones = (1, 1)
    return torch.ops.aten.convolution_backward(
        gradient, x, weight, None, ones, ones, ones, False, (0, 0), 1, wanted
    )[:2]


def _grid(x: Tensor) -> tuple[int, int]:
    """Tiles of an image, downwards and to the right."""
    return -(-x.shape[2] // TILE), -(-x.shape[3] // TILE)


def _rows_at_once(x: Tensor) -> int:
    down, right = _grid(x)
    return max(1, AT_ONCE // (down * right))


def _cut(images: Tensor) -> Tensor:
    """The tiles that images are cut into: (36, tiles and channels)."""
    height, width = images.shape[2:]
    padding = (0, 0, 1, 1 + -width % TILE, 1, 1 + -height % TILE)
    padded = F.pad(images.permute(0, 2, 3, 1), padding)
    tiles = padded.unfold(1, SEEN, TILE).unfold(2, SEEN, TILE)
    return tiles.permute(4, 5, 0, 1, 2, 3).reshape(SEEN**2, -1)


def _add_tiles(tiles: Tensor, place: Tensor) -> None:
    """The reverse of `_cut`, into the places of the outputs: where tiles overlap, their sum."""
    tiles = tiles.permute(2, 3, 0, 4, 1, 5)
    for inner, down in enumerate(_PLACES):
        for other, right in enumerate(_PLACES):
            source = tiles[:, down[2], down[0], right[2], right[0]]
            target = place[:, down[3], down[1], right[3], right[1]]
            if inner == other == 0:
                target.copy_(source)
            else:
                target.add_(source)


def _joined(blocks: Tensor, x: Tensor) -> Tensor:
    """Images of the size of `x` out of blocks of 4x4."""
    rows, down, _, right, _, channels = blocks.shape
    images = blocks.view(rows, down * TILE, right * TILE, channels).permute(0, 3, 1, 2)
    return images[:, :, : x.shape[2], : x.shape[3]].contiguous(memory_format=torch.channels_last)


@cache
def _map(of_one_direction: tuple[tuple[float, ...], ...], dtype: torch.dtype) -> Tensor:
    """The map in both directions, as one matrix."""
    one = torch.tensor(of_one_direction, dtype=torch.float64)
    return torch.kron(one, one).to(dtype)
