"""Estimators of the class prior π_{y,t} that Logit Adjusted Softmax corrects for (Eq. 7).

Each estimator observes the labels of the rows a step trains on and returns one non-negative weight
per class. Only ratios matter (softmax is shift-invariant), so weights may be raw counts. A weight
of zero means that the class is absent and leaves the softmax.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import torch
from torch import Tensor

from evenstream.core.classes import pad_classes
from evenstream.core.criterion import Need
from evenstream.core.edits import Regrouping
from evenstream.core.randomness import make_generator
from evenstream.entries import whole_number
from evenstream.errors import InputError, shown

__all__ = [
    "ExponentialWindow",
    "MacroPrior",
    "PriorEstimator",
    "RandomPrior",
    "SlidingWindow",
]


class PriorEstimator:
    """Interface of a class-prior estimator; subclasses implement two methods and the state."""

    is_estimate: ClassVar[bool] = True
    """Whether the weights estimate the stream's priors (False: a control experiment)."""

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs from the stream."""
        return frozenset()

    def start(self, seed: int) -> None:
        """Called when a learner with this seed starts using it."""

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Take in the labels of one step's training rows."""
        raise NotImplementedError

    def mark(self) -> Any:
        """Take a mark for `restore`; by default the whole state."""
        return self.state()

    def restore(self, mark: Any) -> None:
        """Go back to the mark, because the step observed since was rejected."""
        self.load_state(mark)

    def weights(self) -> Tensor:
        """One weight for each class observed so far; classes beyond have weight 0."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Everything needed to continue exactly here, as tensors and plain values."""
        raise NotImplementedError

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from where `state` was taken."""
        raise NotImplementedError

    def regroup(self, classes: Regrouping) -> None:
        """Called when a class is merged into another, or removed as if never observed."""
        raise InputError(
            f"{type(self).__name__} cannot update its weights when a class is removed; "
            "implement its regroup(classes)"
        )


class SlidingWindow(PriorEstimator):
    """Label counts over the last `window` observed batches (Eq. 7), in O(batch + classes) per step.

    The running counts add the newest batch and subtract the one that leaves the window; they are
    integers, so they never drift, however long the stream.
    """

    def __init__(self, window: int = 1) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise InputError(
                f"window must be a whole number of batches, 1 or more, got {shown(window)}"
            )
        self.window = window
        self._batches: deque[Tensor] = deque()
        self._counts = torch.zeros(0, dtype=torch.int64)

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Push a batch of class indices; the oldest leaves once `window` are held."""
        counts = pad_classes(self._counts.to(labels.device), n_classes)
        self._counts = counts + torch.bincount(labels, minlength=counts.shape[0])
        self._batches.append(labels.detach().clone())
        if len(self._batches) > self.window:
            gone = self._batches.popleft().to(labels.device)
            self._counts -= torch.bincount(gone, minlength=self._counts.shape[0])

    def mark(self) -> Any:
        """The counts and batches, which are never modified in place."""
        return self._counts, tuple(self._batches)

    def restore(self, mark: Any) -> None:
        """Restore saved counts and batches."""
        self._counts, batches = mark
        self._batches = deque(batches)

    def weights(self) -> Tensor:
        """The counts n_c."""
        return self._counts

    def state(self) -> dict[str, Any]:
        """The labels in the window, batch after batch, and the length of each batch."""
        batches = [batch.cpu() for batch in self._batches]  # after a resume there may be some
        return {
            "labels": torch.cat(batches) if batches else torch.zeros(0, dtype=torch.int64),
            "lengths": torch.tensor([len(batch) for batch in batches], dtype=torch.int64),
            "n_classes": self._counts.shape[0],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Rebuild the window (from the newest batches, if it is shorter than the saved one)."""
        labels, lengths = state["labels"], state["lengths"][-self.window :].tolist()
        kept = labels[len(labels) - sum(lengths) :]
        counts = torch.bincount(kept, minlength=whole_number(state, "n_classes"))
        self._batches = deque(batch.clone() for batch in kept.split(lengths))
        self._counts = counts

    def regroup(self, classes: Regrouping) -> None:
        """Give the labels in the window their new indices, and count them again."""
        self._batches = deque(map(classes.indices, self._batches))
        self._counts = classes.totals(self._counts)


class _WeightVector(PriorEstimator):
    """An estimator whose whole state is one weight per class, replaced at each step."""

    def __init__(self) -> None:
        self._weights = torch.zeros(0)

    def mark(self) -> Any:
        """The weights."""
        return self._weights

    def restore(self, mark: Any) -> None:
        """Restore saved weights."""
        self._weights = mark

    def weights(self) -> Tensor:
        """The weights."""
        return self._weights

    def state(self) -> dict[str, Any]:
        """The weights."""
        return {"weights": self._weights.clone()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the weights."""
        self._weights = state["weights"].clone()

    def regroup(self, classes: Regrouping) -> None:
        """The weights of merged classes add up."""
        self._weights = classes.totals(self._weights)


class ExponentialWindow(_WeightVector):
    """Counts that fade by `decay` at each batch: a soft window of 1 / (1 - decay) batches.

    Not in the paper. A class stays in the softmax after its batch has passed, with a shrinking
    weight; needs O(classes) memory, whatever the length.
    """

    def __init__(self, decay: float = 0.9) -> None:
        if not (isinstance(decay, (int, float)) and 0 <= decay < 1):
            raise InputError(f"decay must be in [0, 1), got {decay!r}")
        super().__init__()
        self.decay = decay

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Decay the counts and add the batch."""
        weights = pad_classes(self._weights.to(labels.device), n_classes)
        counts = torch.bincount(labels, minlength=weights.shape[0])
        self._weights = self.decay * weights + counts


class RandomPrior(PriorEstimator):
    """Ablation "Random": π_c drawn from U[0, 1] for every class seen so far.

    All are redrawn at every step, or every `redraw` steps; a new class gets its prior when it
    arrives.
    """

    is_estimate = False

    def __init__(self, seed: int | None = None, redraw: int = 1) -> None:
        if isinstance(redraw, bool) or not isinstance(redraw, int) or redraw < 1:
            raise InputError(f"redraw must be a whole number of steps, 1 or more, got {redraw!r}")
        self.redraw, self._steps = redraw, 0
        self.seed = seed
        """None means that of the learner, or 0 without one."""
        self.start(0)
        self._seen = torch.zeros(0, dtype=torch.bool)
        self._weights = torch.zeros(0)

    def start(self, seed: int) -> None:
        """Draw with the learner's seed, unless it has its own."""
        own = seed if self.seed is None else self.seed
        self._generator = make_generator(own, "random-prior")

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Remember which classes exist and draw a new prior over them."""
        seen = pad_classes(self._seen.to(labels.device), n_classes).clone()
        seen[labels] = True
        self._seen = seen
        draw = torch.rand(seen.shape[0], generator=self._generator).clamp_min(1e-12)
        drawn = draw.to(labels.device) * seen
        if self._steps % self.redraw:
            kept = pad_classes(self._weights.to(labels.device), seen.shape[0])
            drawn = torch.where(kept > 0, kept, drawn)
        self._weights = drawn
        self._steps += 1

    def weights(self) -> Tensor:
        """The current draw."""
        return self._weights

    def state(self) -> dict[str, Any]:
        """Seen classes, the current draw, its age and the generator."""
        return {
            "steps": self._steps,
            "seen": self._seen.clone(),
            "weights": self._weights.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore all of these."""
        self._steps = whole_number(state, "steps")
        self._seen, self._weights = state["seen"].clone(), state["weights"].clone()
        self._generator.set_state(state["generator"])

    def regroup(self, classes: Regrouping) -> None:
        """When classes are merged, the one that stays keeps its prior."""
        self._seen, self._weights = classes.totals(self._seen), classes.entries(self._weights)


class MacroPrior(_WeightVector):
    """Ablation "Macro": the prior computed from the whole task and the whole memory.

    π_c = (b·p_stream(c) + m·p_memory(c)) / (b + m), with p_stream the true label distribution of
    the current task (an oracle) and p_memory that of the current memory. Call `set_task_counts`
    before `observe`.
    """

    needs = frozenset({"label_counts"})

    def set_task_counts(self, stream: Tensor, memory: Tensor, incoming: int, replayed: int) -> None:
        """Compute the prior from the label counts of the task and the memory, and from b and m."""
        n_classes = max(stream.shape[0], memory.shape[0])
        stream = pad_classes(stream.double(), n_classes)
        memory = pad_classes(memory.double().to(stream.device), n_classes)
        mixture = incoming * stream / stream.sum()
        if replayed:
            mixture = mixture + replayed * memory / memory.sum()
        self._weights = (mixture / (incoming + replayed)).float()

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Nothing to count: `set_task_counts` has already set the prior."""


def __dir__() -> list[str]:
    """Public names, for completion in an editor."""
    return __all__
