"""One step of the stream as a method sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from evenstream.core.classifier import evaluation_mode
from evenstream.core.criterion import Reduction
from evenstream.core.drift import Drift
from evenstream.core.memory import ID, WEIGHT, Placement, X, Y
from evenstream.core.outputs import Outputs, plain_batches
from evenstream.core.rows import Rows, joint_view
from evenstream.core.state import LearnerState
from evenstream.errors import InputError


@dataclass(frozen=True, eq=False)
class Forward:
    """A forward pass of a view, whose features several exits use one after another."""

    x: Tensor
    features: Tensor


@dataclass(frozen=True)
class StepResult:
    """What `Learner.learn` returns about a step."""

    step: int
    """Steps made so far, including this one."""
    loss: float | None
    """The training loss; None if the network was not updated."""
    accuracy: float | None
    """Share of the incoming rows that the model got right before the update (prequential), with the
    classes known before this batch; None while rows are collected, and in steps in which the
    inference rule does not measure it. Measured on the training view if logits decide, otherwise
    un-augmented."""
    rows: int
    """Rows trained on, including replayed ones."""
    single_class: bool = False
    """Whether the window held only one class, so that Logit Adjusted Softmax had no gradient."""
    waiting: int = 0
    """Rows collected so far for the next step (`accumulate`)."""
    drift: tuple[Drift, ...] = ()
    """Changes detected in the stream (`Learner(drift=...)`)."""


class Picks(Protocol):
    """Chooses the stored rows that a step replays."""

    def pick(self, step: Step, count: int) -> Rows:
        """At most `count` rows; none if the memory is empty."""
        ...


class Step:
    """Everything a method may use in one step. Methods read; the learner changes state.

    Attributes:
        number: this step's number, from 1.
        incoming: the batch that has just arrived.
        groups: the rows this step trains on, as `Method.training_rows` chose them.
        known: number of classes seen before this batch.
        n_classes: number of classes seen, including this batch.
        replay_batch: number of rows to replay, as configured.
        batch: the nominal size of an incoming batch.
            For both, only this step's share if it is one of several on parts of a batch.
        update: `update(loss, *groups)`, backward, finite check and optimiser step, on the
            whole network or on named groups ("head", or the method's own optimisers).
        placed: where the incoming rows went, once the memory has taken them in.
        notes: whatever a method wants to pass from one hook of this step to the next.
        outputs: the result of `plain_outputs`, if it was called.
        again: whether the rows were learned before: by an earlier step of the same arrival, or
            because they were passed to `learn` with `store=False`.
    """

    def __init__(
        self,
        learner: LearnerState,
        retrieval: Picks,
        incoming: Rows,
        known: int,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.number, self.incoming = learner.step + 1, incoming
        self.known, self.n_classes = known, len(learner.label_map)
        self.network, self.criterion = learner.network, learner.criterion
        self.memory, self.retrieval = learner.memory, retrieval
        self.preprocess = learner.preprocess
        self.randomness, self.update = learner.randomness, learner.update
        options = learner.options
        self.batch = even_part(options.batch, *part)
        self.replay_batch = even_part(options.replay_batch, *part)
        self._optimizer = learner.optimizer
        self.groups: Sequence[Rows] = ()
        self.placed: Placement | None = None
        self.remembered: dict[str, Tensor] = {}
        self.notes: dict[str, Any] = {}
        self.outputs: Outputs | None = None
        self.again = False
        self._logits: dict[Rows, Tensor] = {}
        self._joint: Tensor | None = None
        self.exit: int | None = None
        """For a network with several exits, the one whose logits `net` returns; None for their
        mean."""
        self._forwards: list[Forward] = []
        self._labels: Tensor | None = None
        self.remember(**{n: incoming.fields[n] for n in (WEIGHT, ID) if n in incoming.fields})

    @property
    def lr(self) -> float:
        """The learning rate of the network."""
        return float(self._optimizer.param_groups[0]["lr"])

    def retrieve(self, count: int | None = None) -> Rows:
        """Replayed rows by the method's retrieval policy (`replay_batch` of them by default)."""
        return self.retrieval.pick(self, self.replay_batch if count is None else count)

    def fetch(self, slots: Tensor) -> Rows:
        """Stored rows by slot."""
        device = self.incoming.y.device
        slots = slots.to(self.memory.device)
        if not len(slots):
            nothing = torch.zeros(0, dtype=torch.int64, device=device)
            return self._rows(self.incoming.raw[:0], nothing, nothing, {})
        values = {name: rows.to(device) for name, rows in self.memory.rows(slots).items()}
        return self._rows(values.pop(X), values.pop(Y), slots, values)

    def _rows(self, raw: Tensor, y: Tensor, slots: Tensor, fields: dict[str, Tensor]) -> Rows:
        return Rows(raw, y, self.preprocess, self.randomness.augment, slots, fields)

    def joint(self) -> tuple[Tensor, Tensor]:
        """Views and labels of all training rows in one batch (Algorithms 1 and 2)."""
        if not self.exit or self._joint is None:
            self._joint = joint_view(self.groups)
        return self._joint, self.labels()

    def labels(self) -> Tensor:
        """Labels of all training rows: exactly what the criterion observes."""
        if self._labels is None:
            labels = [group.y for group in self.groups if len(group)]
            if not labels:
                return self.incoming.y[:0]
            self._labels = torch.cat(labels)
        return self._labels

    def net(self, x: Tensor) -> Tensor:
        """Logits in train mode, with gradients."""
        return self.forward(x)[1]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits in train mode, with gradients."""
        if self.exit is None:
            features = self.network.features(x)
            logits = self.network.logits(features)
            self._note(x, logits.detach())
            return features, logits
        features = self._forward(x).features
        if self.exit == self.network.exits - 1:
            self._note(x, self.network.head(features.detach(), self.network.width).detach())
        return features, self.network.exit_logits(self.exit, features)

    def _forward(self, x: Tensor) -> Forward:
        """The forward pass of this very view, made when first needed."""
        for made in self._forwards:
            if made.x is x:
                return made
        self._forwards.append(Forward(x, self.network.features(x)))
        return self._forwards[-1]

    def _note(self, x: Tensor, logits: Tensor) -> None:
        """Remember the logits of a view of this step's rows."""
        if x is self._joint:
            parts = torch.split(logits, [len(group) for group in self.groups])
            self._logits.update(zip(self.groups, parts, strict=True))
        for rows in (self.incoming, *self.groups):
            if x is rows.made:
                self._logits[rows] = logits

    def note_logits(self, rows: Rows, logits: Tensor) -> None:
        """Register logits that a method computed without `net`, so that they are not recomputed."""
        self._logits[rows] = logits

    def plain_outputs(self) -> Outputs:
        """The network's outputs for the un-augmented incoming rows in eval mode, computed once."""
        if self.outputs is None:
            with evaluation_mode(self.network):
                batches = plain_batches(self.preprocess, self.incoming.raw)
                parts = [(x, self.network.features(x)) for x in batches]
                x, features = (torch.cat(part) for part in zip(*parts, strict=True))
                logits = self.network.logits(features)[:, : self.n_classes]
            self.outputs = Outputs(x, features, logits)
        return self.outputs

    def logits_of(self, rows: Rows) -> Tensor | None:
        """The logits of a group of this step's rows from the forward pass of its view, if any."""
        return self._logits.get(rows)

    def ce(self, logits: Tensor, labels: Tensor, reduction: Reduction | None = None) -> Tensor:
        """The method's cross-entropy term: plain, or logit adjusted for its `-las` form.

        If rows have weights, the mean is Σ w·loss / Σ w. The labels must then be `labels()` or the
        `y` of a group, which identifies their rows.
        """
        weights = self._weights_of(labels)
        if weights is None:
            return self.criterion.score(logits, labels, reduction)
        losses = weights * self.criterion.score(logits, labels, "none")
        reduction = self.criterion.reduction if reduction is None else reduction
        if reduction == "none":
            return losses
        tiny = torch.finfo(losses.dtype).tiny  # if all weights are 0, the mean is 0
        return losses.sum() / (weights.sum().clamp_min(tiny) if reduction == "mean" else 1)

    def _weights_of(self, labels: Tensor) -> Tensor | None:
        """The weights of the rows with these labels; None if all are equal."""
        groups = [group for group in self.groups if len(group)]
        if not any(WEIGHT in group.fields for group in groups):
            return None
        if labels is self._labels:
            return torch.cat([group.weights for group in groups])
        for group in groups:
            if labels is group.y:
                return group.weights
        raise InputError(
            "this method cannot use weights: it scores labels other than step.labels() and those "
            "of its groups"
        )

    def remember(self, **fields: Tensor) -> None:
        """Store extra fields with the incoming rows (one value for each of them)."""
        self.remembered.update({name: value.detach() for name, value in fields.items()})


def even_part(total: int, index: int, parts: int) -> int:
    """The share of a total that falls to one of several parts, which differ by at most one."""
    return total // parts + (index < total % parts)
