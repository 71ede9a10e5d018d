"""What the benchmarks compare: steps of learners, and bare passes of networks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenstream import Learner, networks
from evenstream.core.classifier import Classifier
from evenstream.networks.convolution import Convolution
from evenstream.networks.feature_extractor import FeatureExtractor

Call = Callable[[], object]
Layer = Callable[[Tensor], Tensor]

SHAPES = {
    "mlp": (1, 28, 28),
    "slim-resnet18": (3, 32, 32),
    "resnet18": (3, 32, 32),
}
BATCH, CLASSES = 32, 10
FILLED = 1000
"""Rows in a memory that is larger: reading and writing do not depend on how full it is."""


def learner_after(
    method: str, network: str, *, memory: int = 200, batch: int = BATCH, n_classes: int = CLASSES
) -> Learner:
    """A learner with a full memory of random images, with crop and flip for colour images.

    The memory is filled by a first step with so many rows: expensive methods do not replay yet.
    """
    augment = "crop+flip" if SHAPES[network][0] == 3 else "none"
    learner = Learner(
        method, network, memory=memory, batch=batch, replay_batch=batch, augment=augment
    )
    learner.start_task()
    learner.learn(*next(batches(network, n_classes, min(memory, FILLED), different=1)))
    return learner


def steps_of(learner: Learner, network: str, n_classes: int = CLASSES, first: int = 0) -> Call:
    """A call that makes one step, with classes from `first` to below `n_classes`."""
    source = batches(network, n_classes, learner.options.batch, first)
    return lambda: learner.learn(*next(source))


def batches(
    network: str,
    n_classes: int = CLASSES,
    batch: int = BATCH,
    first: int = 0,
    different: int = 8,
) -> Iterator[tuple[Tensor, list[int]]]:
    """Endless random batches: a few different ones in turn."""
    return batches_of(SHAPES[network], n_classes, batch, first, different)


def batches_of(
    shape: tuple[int, ...],
    n_classes: int = CLASSES,
    batch: int = BATCH,
    first: int = 0,
    different: int = 8,
) -> Iterator[tuple[Tensor, list[int]]]:
    """The same for images of a shape."""
    generator = torch.Generator().manual_seed(0)
    shape = (different, batch, *shape)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    labels = torch.randint(first, n_classes, (different, batch), generator=generator)
    return cycle(zip(images, labels.tolist(), strict=True))


def bare_step(network: nn.Module, rows: int, shape: tuple[int, ...], lr: float = 0.01) -> Call:
    """Forward, backward and SGD on one prepared batch: the least that any learner has to do."""
    x, y = ready(network, rows, shape), torch.randint(0, CLASSES, (rows,))
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    network.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def bare_forward(network: nn.Module, rows: int, shape: tuple[int, ...]) -> Call:
    """A forward pass without gradients on one prepared batch, in eval mode."""
    x = ready(network, rows, shape)

    def forward() -> Tensor:
        network.eval()
        with torch.no_grad():
            out: Tensor = network(x)
        network.train()
        return out

    return forward


def bare_twin(learner: Learner) -> Classifier:
    """A network like the learner's, in the same precision and layout, with weights of its own."""
    assert learner.built
    return copy.deepcopy(learner.network)


def plain_baseline(network: str) -> nn.Module:
    """The same network as anybody would write it: float32, NCHW, PyTorch's own convolutions."""
    backbone = networks.build(network, SHAPES[network])
    assert isinstance(backbone, FeatureExtractor)
    for module in backbone.modules():
        if isinstance(module, Convolution):
            module.forward = nn.Conv2d.forward.__get__(module)  # type: ignore[method-assign]
    return nn.Sequential(backbone, nn.Linear(backbone.num_features, CLASSES))


def ready(network: nn.Module, rows: int, shape: tuple[int, ...]) -> Tensor:
    """A random batch in the layout of a network's weights."""
    x = torch.rand(rows, *shape)
    last = any(
        parameter.ndim == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
        and not parameter.is_contiguous()
        for parameter in network.parameters()
    )  # fmt: skip
    return x.contiguous(memory_format=torch.channels_last) if last else x
