"""Target 9: a frozen backbone sees each arriving row once, and costs no more than that."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import nn

from benchmarks import parts
from benchmarks.line import Line
from benchmarks.timing import Patience, Ratio, take_turns
from evenstream import Frozen, Learner, networks

SIDE = 96


def lines(patience: Patience) -> Iterator[Line]:
    """EfficientNet-Lite0, and slim-resnet18 beside replay through all of it."""
    encoder = Frozen("efficientnet-lite0").encoder
    assert isinstance(encoder, nn.Module)
    step = steps(Learner("er-las", Frozen(encoder), memory=200), (3, SIDE, SIDE))
    bare = forward_and_head(encoder, (3, SIDE, SIDE), 1280)
    times = take_turns(step, bare, patience=patience.times(2), warm_up=2)
    yield Line(
        9,
        "er-las step / forward + training of the head, efficientnet-lite0",
        Ratio.of(*times),
        at_most=1.15,
        note=f"batch {parts.BATCH}, {SIDE}x{SIDE} pixels",
    )
    step = steps(Learner(model=Frozen(encoder), memory=1000), (3, SIDE, SIDE))
    yield Line(
        9,
        "auto step, closed forms and all / the same forward and head, efficientnet-lite0",
        Ratio.of(*take_turns(step, bare, patience=patience, warm_up=2)),
    )
    shape = parts.SHAPES["slim-resnet18"]
    network = networks.build("slim-resnet18", shape)
    step = steps(Learner("er-las", Frozen(network), memory=200), shape)
    bare = forward_and_head(copy.deepcopy(network).eval(), shape, 160)
    through = steps(Learner("er-las", network.requires_grad_(False), memory=200), shape)
    times = take_turns(step, bare, through, patience=patience.times(2), warm_up=2)
    name = "er-las step / forward + training of the head, slim-resnet18"
    yield Line(9, name, Ratio.of(*times[:2]), at_most=1.15)
    yield Line(
        9,
        "replay through the backbone / features stored, slim-resnet18",
        Ratio.of(times[2], times[0]),
    )


def steps(learner: Learner, shape: tuple[int, ...]) -> parts.Call:
    """A call that makes one step of a learner with a full memory."""
    source = parts.batches_of(shape)
    while len(learner.memory) < learner.memory.capacity:
        learner.learn(*next(source))
    return lambda: learner.learn(*next(source))


def forward_and_head(encoder: nn.Module, shape: tuple[int, ...], features: int) -> parts.Call:
    """One forward of a ready batch in eval mode, and a step of a linear head on twice the rows."""
    x = parts.ready(encoder, parts.BATCH, shape)
    head = parts.bare_step(nn.Linear(features, parts.CLASSES), 2 * parts.BATCH, (features,))

    def call() -> None:
        with torch.no_grad():
            encoder(x)
        head()

    return call
