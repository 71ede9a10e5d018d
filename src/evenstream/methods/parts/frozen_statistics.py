"""Forwards that must leave no trace in BatchNorm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def frozen_statistics(network: nn.Module) -> Iterator[None]:
    """Run train-mode forwards (batch statistics) without changing the running statistics."""
    before = [(buffer, buffer.clone()) for buffer in network.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.copy_(value)
