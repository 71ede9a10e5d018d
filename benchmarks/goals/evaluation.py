"""Target 7: predicting test images, and saving checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks import parts
from benchmarks.goals.step import NO_BF16
from benchmarks.line import Line
from benchmarks.timing import Patience, alternate
from evenstream.core.outputs import PREDICT_BATCH

NETWORK, IMAGES, STEPS_BETWEEN_SAVES = "slim-resnet18", 1024, 157
"""157 steps are a task of CIFAR-100 in ten tasks: there is a checkpoint after each."""


def lines(patience: Patience) -> Iterator[Line]:
    """slim-resnet18, a memory of 500."""
    learner = parts.learner_after("er-las", NETWORK, memory=500)
    images = torch.randint(0, 256, (IMAGES, *parts.SHAPES[NETWORK]), dtype=torch.uint8)
    plain = parts.plain_baseline(NETWORK).eval()

    def baseline() -> Tensor:
        with torch.no_grad():
            return torch.cat([plain(x.float() / 255) for x in torch.split(images, PREDICT_BATCH)])

    slow = "" if learner.options.dtype == "bfloat16" else NO_BF16

    def ours() -> object:
        return learner.predict_indices(images)

    ratio = alternate(baseline, ours, patience.times(2), warm_up=1)
    what = f"bare fp32 NCHW evaluation / ours, {NETWORK}"
    yield Line(7, what, ratio, at_least=3.0, unmeasurable=slow)
    with tempfile.TemporaryDirectory() as folder:
        step = parts.steps_of(learner, NETWORK)
        ratio = alternate(lambda: learner.save(folder), step, patience)
    yield Line(
        7,
        f"saving a checkpoint / {STEPS_BETWEEN_SAVES} steps, {NETWORK}",
        ratio.per(STEPS_BETWEEN_SAVES),
        at_most=0.01,
    )
