"""Criteria: how a method's cross-entropy term is computed.

Every criterion has the two-step form: `observe` the labels of the rows that a step trains on, once,
then `score` rows, once per forward pass of the method. Plain cross-entropy ignores what it
observes; Logit Adjusted Softmax counts it. A method cannot tell which one it was given, which is
why `-las` works on any of them.
"""

from __future__ import annotations

import math
import sys
from typing import Any, cast, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evenstream.bounds import is_whole
from evenstream.core.classes import pad_classes
from evenstream.core.criterion import Need, Reduction
from evenstream.core.edits import Compaction, Regrouping
from evenstream.core.inputs import refuse_unusual
from evenstream.entries import entry
from evenstream.errors import InputError, shown
from evenstream.policies.priors import MacroPrior, PriorEstimator, SlidingWindow

__all__ = [
    "CrossEntropy",
    "LogitAdjustedSoftmax",
    "at_least_float32",
]

MANY_CLASSES = 1024
"""With at least this many classes, those without a prior are left out before the softmax."""


def at_least_float32(logits: Tensor) -> Tensor:
    """Half precision becomes float32; float64 stays."""
    return logits if logits.dtype == torch.float64 else logits.float()


class CrossEntropy(nn.Module):
    """Softmax cross-entropy over the given logits (Eq. 1), never in half precision."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.reduction: Reduction = _checked_reduction(reduction)
        self.in_use = False
        """Whether a learner is using it, with what it has observed."""

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing from the stream."""
        return frozenset()

    def start(self, seed: int) -> None:
        """Called when a learner with this seed starts using it."""

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Cross-entropy keeps no statistics."""

    def score(self, logits: Tensor, labels: Tensor, reduction: Reduction | None = None) -> Tensor:
        """The loss of these rows."""
        _check_rows(logits, labels)
        reduction = self.reduction if reduction is None else _checked_reduction(reduction)
        with torch.autocast(logits.device.type, enabled=False):
            try:
                return F.cross_entropy(at_least_float32(logits), labels, reduction=reduction)
            except IndexError:
                text = f"class indices must lie in 0..{logits.shape[1] - 1}"
                raise InputError(text) from None

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of these rows."""
        return self.score(logits, labels)

    def set_task_counts(self, stream: Tensor, memory: Tensor, incoming: int, replayed: int) -> None:
        """Receive label counts of the task and the memory (only if `needs` asks for them)."""

    def mark(self) -> Any:
        """Nothing to note."""

    def restore(self, mark: Any) -> None:
        """Undo what was observed since the mark, because the step was rejected."""

    def settle(self) -> None:
        """Nothing to discard."""

    def state(self) -> dict[str, Any]:
        """The statistics, for checkpoints."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the statistics."""

    def regroup(self, classes: Regrouping) -> None:
        """Update statistics when a class is removed or merged; there are none here."""
        if self.state():
            raise InputError(
                f"{type(self).__name__} keeps statistics but cannot update them when a class is "
                "removed; implement its regroup(classes)"
            )

    def compact(self, slots: Compaction) -> None:
        """Nothing to do: a criterion does not know the memory."""

    @property
    def single_class(self) -> bool:
        """Whether the observed labels leave the loss without a gradient; never, here."""
        return False

    @property
    def why_not_prior_free(self) -> str | None:
        """Why logits trained with this still contain class priors; None if they do not."""
        return (
            "it is trained with plain cross-entropy, so its logits contain the class frequencies "
            "of the stream; use a -las method"
        )


def _checked_reduction(reduction: Any) -> Reduction:
    if isinstance(reduction, str) and reduction in get_args(Reduction):
        return cast(Reduction, reduction)
    raise InputError(f"reduction must be mean, sum or none, got {shown(reduction)}")


def _check_labels(labels: Any) -> None:
    if isinstance(labels, Tensor):
        refuse_unusual("labels", labels)
        if labels.ndim == 1 and labels.dtype == torch.int64:
            return
    raise InputError("labels must be a one-dimensional tensor of int64 class indices")


def _check_rows(logits: Any, labels: Any) -> None:
    """Reject anything but logits with a row for each label."""
    _check_labels(labels)
    if not isinstance(logits, Tensor):
        raise InputError(f"logits must be a tensor, got {shown(logits)}")
    refuse_unusual("logits", logits)
    if not logits.is_floating_point() or logits.ndim != 2 or len(logits) != len(labels):
        raise InputError(
            f"logits must be numbers with a row for each label: {logits.dtype} of shape "
            f"{tuple(logits.shape)} are not of {len(labels)} labels"
        )


def _without_absent(
    logits: Tensor, labels: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same restricted to the window's classes, if most classes are outside it."""
    present = weights.nonzero().squeeze(1)
    if 2 * len(present) > len(weights):
        return logits, labels, weights
    return logits[:, present], torch.searchsorted(present, labels), weights[present]


class LogitAdjustedSoftmax(CrossEntropy):
    r"""Cross-entropy on logits + τ·log π, which removes the class priors from the model (Eq. 6).

    L(y, z) = -z_y - τ log π_y + log Σ_c exp(z_c + τ log π_c), with π the label frequencies over
    the last `window` training batches (Eq. 7). Two lines in any training loop:

    >>> criterion = LogitAdjustedSoftmax(tau=1.0, window=1)
    >>> loss = criterion(torch.zeros(4, 4), torch.tensor([2, 2, 3, 0]))  # pushes, then scores
    >>> round(loss.item(), 4)
    1.0397

    In train mode a call pushes the labels into the window and returns the loss. In eval mode it is
    plain cross-entropy and pushes nothing: at test time the raw logits are used. A step with
    several forwards calls `observe` once with all its labels, then `score` for each.

    Args:
        tau: strength τ ≥ 0; 0 is plain cross-entropy, infinity the paper's ablation, in which only
            classes at least as frequent as the row's own stay in the softmax.
        window: number l of batches over which π is counted.
        reduction: "mean", "sum" or "none".
        prior: a different estimator of π (`evenstream.policies.priors`), instead of the sliding
            window.
    """

    def __init__(
        self,
        tau: float = 1.0,
        window: int = 1,
        reduction: Reduction = "mean",
        prior: PriorEstimator | None = None,
    ) -> None:
        super().__init__(reduction)
        number = isinstance(tau, (int, float, np.integer, np.floating))
        if isinstance(tau, (bool, np.timedelta64)) or not (number and tau >= 0):
            raise InputError(
                f"tau must be a number of 0 or more, infinity included, got {shown(tau)} "
                "(a negative tau would favour the frequent classes even more)"
            )
        if not isinstance(prior, PriorEstimator | None):
            raise InputError(f"prior must be an estimator of priors or None, got {shown(prior)}")
        self.tau = math.inf if tau > sys.float_info.max else float(tau)
        self.prior = prior if prior is not None else SlidingWindow(window)

    @property
    def needs(self) -> frozenset[Need]:
        """What the estimator needs from the stream."""
        return self.prior.needs

    def start(self, seed: int) -> None:
        """Notify the estimator."""
        self.prior.start(seed)

    def observe(self, labels: Tensor, n_classes: int) -> None:
        """Count the labels of the rows that the next step trains on."""
        _check_labels(labels)
        if not (is_whole(n_classes) and 0 <= n_classes < 2**31):
            raise InputError(
                f"n_classes must be a whole number below 2**31, got {shown(n_classes)}"
            )
        self._check(labels, int(n_classes))
        self.prior.observe(labels, int(n_classes))

    def _check(self, labels: Tensor, n_classes: int) -> None:
        if labels.numel():
            lowest, highest = torch.stack(labels.aminmax()).tolist()
            if lowest < 0 or highest >= n_classes:
                raise InputError(f"class indices must lie in 0..{n_classes - 1}")
        before = self.prior.weights().shape[0]
        if before > n_classes:
            raise InputError(
                f"logits are of {n_classes} classes, but {before} classes were observed before; "
                "their number may only grow"
            )

    def mark(self) -> Any:
        """The estimator's mark."""
        return self.prior.mark()

    def restore(self, mark: Any) -> None:
        """Undo what was observed since the mark."""
        self.prior.restore(mark)

    def score(self, logits: Tensor, labels: Tensor, reduction: Reduction | None = None) -> Tensor:
        """The loss of rows whose labels have been observed."""
        if self.tau == 0:
            return super().score(logits, labels, reduction)
        _check_rows(logits, labels)
        reduction = self.reduction if reduction is None else _checked_reduction(reduction)
        self._check(labels, logits.shape[1])
        weights = pad_classes(self.prior.weights().to(logits.device), logits.shape[1])
        own = weights[labels]
        if not bool((own > 0).all()):
            missing = sorted(set(labels[own <= 0].tolist()))
            raise InputError(
                f"class indices {missing} are scored but were never observed in the window: their "
                "prior is 0 and the loss infinite; call observe() with every label of the step "
                "before score()"
            )
        with torch.autocast(logits.device.type, enabled=False):
            # A weight of 0 gives log 0 = -inf: the class leaves the softmax and its gradient is
            # exactly zero. τ = 0 never comes here, so there is no 0 · (-inf).
            if logits.shape[1] >= MANY_CLASSES:
                logits, labels, weights = _without_absent(logits, labels, weights)
            logits = at_least_float32(logits)
            log_prior = weights.to(logits.dtype).log()
            if math.isinf(self.tau):
                masked = weights < own.unsqueeze(1)
                adjusted = (logits + log_prior).masked_fill(masked, -math.inf)
            else:
                adjusted = logits + self.tau * log_prior
            return F.cross_entropy(adjusted, labels, reduction=reduction)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Train mode: observe, then score. Eval mode: plain cross-entropy."""
        if not self.training:
            return super().score(logits, labels)
        _check_rows(logits, labels)
        self.observe(labels, logits.shape[1])
        return self.score(logits, labels)

    @property
    def single_class(self) -> bool:
        """Whether the window holds one class only: then the loss and its gradient are zero."""
        return self.tau > 0 and int((self.prior.weights() > 0).sum()) == 1

    @property
    def why_not_prior_free(self) -> str | None:
        """Only τ = 1 with an estimated prior removes the prior exactly (Theorem 3.1)."""
        if not self.prior.is_estimate:
            return "its prior is random, a control experiment, not an estimate of the stream's"
        if self.tau != 1:
            return (
                f"with tau={self.tau:g} its logits keep the prior to the power {1 - self.tau:g}; "
                "only tau=1 removes it exactly"
            )
        return None

    def set_task_counts(self, stream: Tensor, memory: Tensor, incoming: int, replayed: int) -> None:
        """Pass the counts to the macro prior."""
        if isinstance(self.prior, MacroPrior):
            self.prior.set_task_counts(stream, memory, incoming, replayed)

    def state(self) -> dict[str, Any]:
        """The estimator's state."""
        return self.prior.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the estimator's state."""
        with entry("prior"):
            self.prior.load_state(state)

    def regroup(self, classes: Regrouping) -> None:
        """Update the estimator."""
        self.prior.regroup(classes)

    def get_extra_state(self) -> dict[str, Any]:
        """Include the estimator's state in `state_dict`."""
        return self.prior.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore it in `load_state_dict`."""
        self.load_state(state)

    def extra_repr(self) -> str:
        """What `print(criterion)` shows."""
        return f"tau={self.tau:g}, prior={type(self.prior).__name__}, reduction={self.reduction}"
