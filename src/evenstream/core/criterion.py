"""What a step asks of a criterion: observe the training labels, then score rows."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from torch import Tensor

from evenstream.core.stateful import Stateful

Reduction = Literal["mean", "sum", "none"]
Need = Literal["boundaries", "label_counts", "memory", "second_pass", "shuffled"]
"""What a part may need: `boundaries` (start_task and end_task are called), `label_counts`
(start_task receives the task's label counts), `memory` (a capacity above 0), `second_pass` (the
task hooks receive the task's data), `shuffled` (the stream arrives in random order)."""
NEEDS_BOUNDARIES: dict[Need, str] = {
    "boundaries": "task boundaries",
    "label_counts": "each task's label counts",
    "second_pass": "each task's data a second time",
}
"""Descriptions of needs that a stream without boundaries cannot meet."""


class Criterion(Stateful, Protocol):
    """Cross-entropy or its replacement; see `evenstream.policies.criteria`."""

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs from the stream."""
        ...

    @property
    def single_class(self) -> bool:
        """Whether the observed labels leave the loss without a gradient."""
        ...

    @property
    def why_not_prior_free(self) -> str | None:
        """Why logits trained with it still contain class priors; None if they do not."""
        ...

    @property
    def reduction(self) -> Reduction:
        """Default reduction of `score`."""
        ...

    def start(self, seed: int) -> None:
        """Called when a learner with this seed starts using it."""
        ...

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Observe the labels of the rows that a step trains on."""
        ...

    def score(self, logits: Tensor, labels: Tensor, reduction: Reduction | None = None) -> Tensor:
        """The loss of rows whose labels were observed."""
        ...

    def set_task_counts(self, stream: Tensor, memory: Tensor, incoming: int, replayed: int) -> None:
        """Receive label counts of the task and the memory, if `needs` asks for them."""
        ...

    def load_state(self, state: Any) -> None:
        """Restore the statistics."""
        ...
