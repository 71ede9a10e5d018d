"""Forward passes that must leave no trace in BatchNorm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torch import nn


@contextmanager
def frozen_statistics(network: nn.Module, mode: Literal["train", "eval"]) -> Iterator[None]:
    """Forward passes with batch (train) or running (eval) statistics, which do not change."""
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    modes = [(module, module.training) for module in network.modules()]
    if mode == "eval":
        network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for buffer, value in before:
            buffer.copy_(value)
