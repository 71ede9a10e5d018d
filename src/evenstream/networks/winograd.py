"""Convolution with 3x3 kernels in a quarter of the multiplications (Winograd's minimal filtering).

Images are cut into tiles of 6x6 that overlap by 2; each gives 4x4 outputs. A linear map of the
tiles and one of the kernels turn the convolution of a tile into 36 products of single numbers,
where the plain sum has 144; over all channels and tiles these are 36 products of matrices.
F(4x4, 3x3) in Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.

Equal to the plain sum up to rounding, in float32 about 1e-5 of the largest number.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

TILE = 4
"""Outputs of a tile, in each direction."""
SEEN = TILE + 2
"""Inputs of a tile, in each direction."""
AT_ONCE = 256
"""Tiles computed together: about as many as fit into the processor's cache."""


def _map(*rows: tuple[float, ...]) -> dict[torch.dtype, Tensor]:
    matrix = torch.tensor(rows, dtype=torch.float64)
    return {torch.float32: matrix.float(), torch.float64: matrix}


# In one direction: the maps of a tile's inputs, of a kernel, and of the products to the outputs.
_INPUTS = _map(
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_KERNEL = _map(
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
_OUTPUTS = _map(
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)


class _Place(NamedTuple):
    """In one direction: where the inputs of a tile lie among the outputs of the tiles."""

    inputs: slice
    outputs: slice
    whose: slice
    """The tiles to which the inputs belong."""
    where: slice
    """The tiles in whose place they lie."""


_PLACES = (
    _Place(slice(1, 5), slice(0, 4), slice(None), slice(None)),
    _Place(slice(0, 1), slice(3, 4), slice(1, None), slice(None, -1)),
    _Place(slice(5, 6), slice(0, 1), slice(None, -1), slice(1, None)),
)
"""The inner four lie in the tile's own place, the outer two in those of its neighbours."""


def count_tiles(x: Tensor) -> int:
    """Number of tiles in these images."""
    down, right = _grid(x)
    return len(x) * down * right


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """`F.conv2d(x, weight, padding=1)` for kernels of 3x3."""
    with torch.autocast("cpu", enabled=False):
        if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
            out: Tensor = _Convolve.apply(x, weight)[0]  # type: ignore[no-untyped-call]
            return out
        return _outputs(x, _mapped_kernels(weight))


class _Convolve(torch.autograd.Function):
    """Returns the output, and what its gradients need: the mapped kernels and the mapped tiles.

    Supports backward mode to any order, also through torch.func, but no forward mode (`jvp`).
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
        wanted = ctx.needs_input_grad
        with torch.autocast("cpu", enabled=False):
            if torch.is_grad_enabled():  # second-order gradients need PyTorch's convolution
                return _plain_gradients(gradient, x, weight, wanted)
            return _gradients(gradient, x, kernels, tiles, wanted)


def _both_ways(matrix: Tensor, squares: Tensor) -> Tensor:
    """Squares of numbers, (n * n, any), mapped downwards and then to the right: (m * m, any)."""
    m, n = matrix.shape
    mapped_downwards = (matrix @ squares.reshape(n, -1)).view(m, n, -1)
    return (matrix.expand(m, m, n) @ mapped_downwards).reshape(m * m, -1)


def _mapped_kernels(weight: Tensor) -> Tensor:
    """Map each kernel to 36 numbers: (36, outputs, inputs)."""
    outputs, inputs = weight.shape[:2]
    kernels = weight.permute(2, 3, 0, 1).reshape(9, -1)
    return _both_ways(_KERNEL[weight.dtype], kernels).view(SEEN**2, outputs, inputs)


def _outputs(x: Tensor, kernels: Tensor, mapped: list[Tensor] | None = None) -> Tensor:
    """The output map. Writes 36 numbers per tile to `mapped`: (36, tiles, inputs)."""
    (down, right), (outputs, inputs) = _grid(x), kernels.shape[1:]
    of_inputs, of_outputs = _INPUTS[x.dtype], _OUTPUTS[x.dtype]
    of_both = x.new_empty(()) + kernels.new_empty(())  # under vmap, with the dimension of either
    out = of_both.new_empty(len(x), down, TILE, right, TILE, outputs)
    for part in _parts(x):
        tiles = _both_ways(of_inputs, _cut(x[part])).view(SEEN**2, -1, inputs)
        found = _both_ways(of_outputs, (tiles @ kernels.mT).view(SEEN**2, -1))
        found = found.view(TILE, TILE, -1, down, right, outputs)
        out[part] = found.permute(2, 3, 0, 4, 1, 5)
        if mapped is not None:
            mapped.append(tiles)
    return _joined(out, x)


def _gradients(
    gradient: Tensor, x: Tensor, kernels: Tensor, mapped: list[Tensor], wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of images and kernels: the transposed maps, in reverse order."""
    (down, right), (outputs, inputs) = _grid(x), kernels.shape[1:]
    of_inputs, of_outputs = _INPUTS[x.dtype], _OUTPUTS[x.dtype]
    of_images = gradient.new_empty(len(x), down, TILE, right, TILE, inputs)
    of_kernels = gradient.new_empty(SEEN**2, outputs, inputs)
    missing = (0, 0, 0, -x.shape[3] % TILE, 0, -x.shape[2] % TILE)
    blocks = F.pad(gradient.permute(0, 2, 3, 1), missing)
    blocks = blocks.reshape(len(x), down, TILE, right, TILE, outputs)
    for i, (part, tiles) in enumerate(zip(_parts(x), mapped, strict=True)):
        some = blocks[part].permute(2, 4, 0, 1, 3, 5).reshape(TILE**2, -1)
        products = _both_ways(of_outputs.t(), some).view(SEEN**2, -1, outputs)
        if wanted[0]:
            found = _both_ways(of_inputs.t(), (products @ kernels).view(SEEN**2, -1))
            _add_tiles(found.view(SEEN, SEEN, -1, down, right, inputs), of_images[part])
        if wanted[1]:
            of_kernels.baddbmm_(products.mT, tiles, beta=min(i, 1))  # the first starts the sum
    return (
        _joined(of_images, x) if wanted[0] else None,
        _unmapped_kernels(of_kernels) if wanted[1] else None,
    )


def _unmapped_kernels(gradient: Tensor) -> Tensor:
    """The gradient of the kernels from that of the mapped kernels."""
    found = _both_ways(_KERNEL[gradient.dtype].t(), gradient.view(SEEN**2, -1))
    return found.view(3, 3, *gradient.shape[1:]).permute(2, 3, 0, 1)


def _plain_gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    ones = (1, 1)
    of_images, of_weight, _ = torch.ops.aten.convolution_backward(
        gradient, x, weight, None, ones, ones, ones, False, (0, 0), 1, (*wanted, False)
    )
    return of_images, of_weight


def _grid(x: Tensor) -> tuple[int, int]:
    """Tiles of an image, downwards and to the right."""
    return -(-x.shape[2] // TILE), -(-x.shape[3] // TILE)


def _parts(x: Tensor) -> list[slice]:
    """Images computed together."""
    down, right = _grid(x)
    some = max(1, AT_ONCE // (down * right))
    return [slice(first, first + some) for first in range(0, len(x), some)]


def _cut(images: Tensor) -> Tensor:
    """Cut images into tiles: (36, tiles and channels)."""
    height, width = images.shape[2:]
    padding = (0, 0, 1, 1 + -width % TILE, 1, 1 + -height % TILE)
    padded = F.pad(images.permute(0, 2, 3, 1), padding)
    tiles = padded.unfold(1, SEEN, TILE).unfold(2, SEEN, TILE)
    return tiles.permute(4, 5, 0, 1, 2, 3).reshape(SEEN**2, -1)


def _add_tiles(tiles: Tensor, place: Tensor) -> None:
    """The reverse of `_cut`, summing where tiles overlap."""
    tiles = tiles.permute(2, 3, 0, 4, 1, 5)
    for down, right in product(_PLACES, repeat=2):
        found = tiles[:, down.whose, down.inputs, right.whose, right.inputs]
        target = place[:, down.where, down.outputs, right.where, right.outputs]
        if down is right is _PLACES[0]:  # covers everything, so it starts the sum
            target.copy_(found)
        else:
            target.add_(found)


def _joined(blocks: Tensor, x: Tensor) -> Tensor:
    """Assemble images of the size of `x` from 4x4 blocks."""
    rows, down, _, right, _, channels = blocks.shape
    images = blocks.view(rows, down * TILE, right * TILE, channels)
    return images[:, : x.shape[2], : x.shape[3]].contiguous().permute(0, 3, 1, 2)
