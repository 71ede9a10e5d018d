"""Estimators of the class prior π_{y,t} that Logit Adjusted Softmax corrects for (Eq. 7).

Each estimator observes the labels of the rows a step trains on and answers with one non-negative
weight per class. Only ratios matter (softmax is shift-invariant), so weights may be raw counts.
A weight of zero means that the class is absent and leaves the softmax.
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
    """What a class-prior estimator does; subclasses fill in the two methods and the state."""

    is_estimate: ClassVar[bool] = True
    """Whether the weights estimate the stream's priors (False: a control experiment)."""

    @property
    def needs(self) -> frozenset[Need]:
        """What the stream must tell."""
        return frozenset()

    def start(self, seed: int) -> None:
        """A learner with this seed begins to use it."""

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Take in the labels of one step's training rows."""
        raise NotImplementedError

    def mark(self) -> Any:
        """Note how it is now, for `restore`; by default its whole state."""
        return self.state()

    def restore(self, mark: Any) -> None:
        """Go back to the mark: the step that was observed since was refused."""
        self.load_state(mark)

    def weights(self) -> Tensor:
        """One weight for each class observed so far; classes beyond have weight 0."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Everything needed to continue exactly here, as tensors and plain values."""
        raise NotImplementedError

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        raise NotImplementedError

    def regroup(self, classes: Regrouping) -> None:
        """A class is merged into another, or gone as if it had never been observed."""
        raise InputError(
            f"{type(self).__name__} does not say what becomes of its weights when a class goes; "
            "write its regroup(classes)"
        )


class SlidingWindow(PriorEstimator):
    """Label counts over the last `window` observed batches (Eq. 7), in O(batch + classes) a step.

    The running counts add the newest batch and subtract the one that leaves the window; they are
    integers, so nothing drifts however long the stream.
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
        """The counts and batches, which are never changed in place."""
        return self._counts, tuple(self._batches)

    def restore(self, mark: Any) -> None:
        """Put back saved counts and batches."""
        self._counts, batches = mark
        self._batches = deque(batches)

    def weights(self) -> Tensor:
        """The counts n_c."""
        return self._counts

    def state(self) -> dict[str, Any]:
        """The labels in the window, one run after the other, and the length of each run."""
        batches = [batch.cpu() for batch in self._batches]  # after a resume some may be there
        return {
            "labels": torch.cat(batches) if batches else torch.zeros(0, dtype=torch.int64),
            "lengths": torch.tensor([len(batch) for batch in batches], dtype=torch.int64),
            "n_classes": self._counts.shape[0],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Rebuild the window (its newest batches, if it is shorter than the saved one)."""
        labels, lengths = state["labels"], state["lengths"][-self.window :].tolist()
        kept = labels[len(labels) - sum(lengths) :]
        counts = torch.bincount(kept, minlength=whole_number(state, "n_classes"))
        self._batches = deque(batch.clone() for batch in kept.split(lengths))
        self._counts = counts

    def regroup(self, classes: Regrouping) -> None:
        """Labels of the window get their new indices; the counts are those of the labels."""
        self._batches = deque(map(classes.indices, self._batches))
        self._counts = classes.totals(self._counts)


class _WeightVector(PriorEstimator):
    """An estimator whose whole state is one weight a class, replaced at each step."""

    def __init__(self) -> None:
        self._weights = torch.zeros(0)

    def mark(self) -> Any:
        """The weights."""
        return self._weights

    def restore(self, mark: Any) -> None:
        """Put back saved weights."""
        self._weights = mark

    def weights(self) -> Tensor:
        """The weights as they are."""
        return self._weights

    def state(self) -> dict[str, Any]:
        """The weights."""
        return {"weights": self._weights.clone()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Put the weights back."""
        self._weights = state["weights"].clone()

    def regroup(self, classes: Regrouping) -> None:
        """The weights of merged classes add up."""
        self._weights = classes.totals(self._weights)


class ExponentialWindow(_WeightVector):
    """Counts that fade by `decay` at each batch: a soft window of 1 / (1 - decay) batches.

    Beyond the paper. A class stays in the softmax after its batch has left, with a weight that
    shrinks; O(classes) memory whatever the length.
    """

    def __init__(self, decay: float = 0.9) -> None:
        if not (isinstance(decay, (int, float)) and 0 <= decay < 1):
            raise InputError(f"decay must be in [0, 1), got {decay!r}")
        super().__init__()
        self.decay = decay

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Fade what was there and add the batch."""
        weights = pad_classes(self._weights.to(labels.device), n_classes)
        counts = torch.bincount(labels, minlength=weights.shape[0])
        self._weights = self.decay * weights + counts


class RandomPrior(PriorEstimator):
    """Ablation "Random": π_c drawn from U[0, 1] for every class seen so far.

    All of them are drawn anew at every step, or every `redraw` steps; a new class gets its prior
    when it arrives.
    """

    is_estimate = False

    def __init__(self, seed: int | None = None, redraw: int = 1) -> None:
        if isinstance(redraw, bool) or not isinstance(redraw, int) or redraw < 1:
            raise InputError(f"redraw must be a whole number of steps, 1 or more, got {redraw!r}")
        self.redraw, self._steps = redraw, 0
        self.seed = seed
        """None: that of the learner, or 0 without one."""
        self.start(0)
        self._seen = torch.zeros(0, dtype=torch.bool)
        self._weights = torch.zeros(0)

    def start(self, seed: int) -> None:
        """Draw by the learner's seed, unless there is one of its own."""
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
        """This step's draw."""
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
        """Put all of it back."""
        self._steps = whole_number(state, "steps")
        self._seen, self._weights = state["seen"].clone(), state["weights"].clone()
        self._generator.set_state(state["generator"])

    def regroup(self, classes: Regrouping) -> None:
        """Of merged classes, the one that stays keeps its prior."""
        self._seen, self._weights = classes.totals(self._seen), classes.entries(self._weights)


class MacroPrior(_WeightVector):
    """Ablation "Macro": the prior computed from the whole task and the whole memory.

    π_c = (b·p_stream(c) + m·p_memory(c)) / (b + m), with p_stream the true label distribution of
    the current task (an oracle) and p_memory that of the memory now. Call
    `set_task_counts` before `observe`.
    """

    needs = frozenset({"label_counts"})

    def set_task_counts(self, stream: Tensor, memory: Tensor, incoming: int, replayed: int) -> None:
        """Compute the prior from label counts of the task and of the memory, and b and m."""
        n_classes = max(stream.shape[0], memory.shape[0])
        stream = pad_classes(stream.double(), n_classes)
        memory = pad_classes(memory.double().to(stream.device), n_classes)
        mixture = incoming * stream / stream.sum()
        if replayed:
            mixture = mixture + replayed * memory / memory.sum()
        self._weights = (mixture / (incoming + replayed)).float()

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Nothing to count: `set_task_counts` has said it all."""


def __dir__() -> list[str]:
    """What is meant to be used, for completion in an editor."""
    return __all__
