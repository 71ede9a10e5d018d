"""Image passes: the cost of learning, independent of the machine.

A row's forward pass through the network counts 1, its backward pass 2; a pass through part of the
network counts in proportion to that part's multiplications. Copies of the network (teachers,
averages) are included.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

FORWARD, BACKWARD = 1.0, 2.0


@dataclass(eq=False)
class Passes:
    """Counts the passes of a network and its copies, which share the same numbers."""

    count: float = 0.0
    """Image passes so far, except those that only measure."""
    aside: float = 0.0
    """Passes that only measure (prequential accuracy)."""
    cpu_aside: float = 0.0
    """CPU seconds spent on these."""
    _resting: bool = False

    def __deepcopy__(self, memo: object) -> Passes:
        return self

    def of(self, rows: int, output: Tensor, share: float) -> None:
        """Count a forward pass of this many rows now, and the backward pass through its output if
        there is one.
        """
        if self._resting:
            return
        self.count += FORWARD * rows * share
        if output.requires_grad:
            output.register_hook(  # type: ignore[no-untyped-call]
                lambda _: self.add(BACKWARD * rows * share)
            )

    def reset(self) -> None:
        """Count from zero."""
        self.count = self.aside = self.cpu_aside = 0.0

    def add(self, passes: float) -> None:
        """Count passes."""
        self.count += passes

    @contextmanager
    def instead(self, passes: float) -> Iterator[None]:
        """Count these for a block whose passes are invisible (per-sample gradients)."""
        self.count += passes
        before, self._resting = self._resting, True
        try:
            yield
        finally:
            self._resting = before

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Count what a block does as measuring, not as learning."""
        before, began = self.count, time.process_time()
        try:
            yield
        finally:
            self.aside += self.count - before
            self.count, self.cpu_aside = before, self.cpu_aside + time.process_time() - began


@contextmanager
def multiplications(module: nn.Module) -> Iterator[list[float]]:
    """Collect the multiplications of each layer with a weight matrix in a block."""
    found: list[float] = []

    def note(layer: nn.Module, _: object, output: object) -> None:
        weight = layer.weight
        if isinstance(output, Tensor) and isinstance(weight, Tensor) and weight.ndim > 1:
            found.append(output.numel() * weight.numel() / weight.shape[0])

    layers = [layer for layer in module.modules() if hasattr(layer, "weight")]
    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
