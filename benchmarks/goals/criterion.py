"""Target 3: the criterion and its estimator alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.line import Line
from benchmarks.timing import Patience, alternate
from evenstream import LogitAdjustedSoftmax


def lines(patience: Patience) -> Iterator[Line]:
    """Up to 100,000 classes; windows of one batch and of a thousand."""
    for n_classes in (10, 1_000, 100_000):
        pair = (scored(LogitAdjustedSoftmax(), n_classes), scored(F.cross_entropy, n_classes))
        name = f"LAS / cross-entropy, forward and backward, {n_classes:,} classes"
        at_most = 1.5 if n_classes == 100_000 else None
        yield Line(3, name, alternate(*pair, patience, warm_up=20), at_most=at_most)
    pair = (
        scored(LogitAdjustedSoftmax(window=1000), 1000),
        scored(LogitAdjustedSoftmax(window=1), 1000),
    )
    yield Line(
        3,
        "LAS with a window of 1,000 batches / of 1",
        alternate(*pair, patience, warm_up=1100),
        at_most=1.05,
        note="our reading of 'independent of the window'",
    )


def scored(criterion: Callable[[Tensor, Tensor], Tensor], n_classes: int) -> Callable[[], None]:
    """A call that scores a batch of 64 and runs the backward pass."""
    logits = torch.randn(64, n_classes, requires_grad=True)
    labels = torch.randint(0, n_classes, (64,))

    def step() -> None:
        criterion(logits, labels).backward()  # type: ignore[no-untyped-call]
        logits.grad = None

    return step
