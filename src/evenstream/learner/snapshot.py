"""Predictions that do not wait for steps: they read a learner as it was after its last step."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from operator import is_
from threading import get_ident
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray as Array
from torch import Tensor

from evenstream.core.classifier import Classifier, evaluation_mode
from evenstream.core.inputs import Batch, check_inputs
from evenstream.core.known_table import timeless
from evenstream.core.labels import Label, LabelMap
from evenstream.core.locks import GLOBAL_GENERATOR, Lock, set_kernel_threads
from evenstream.core.memory import Memory
from evenstream.core.outputs import InferenceContext, Outputs, outputs
from evenstream.core.twins import Twins, modules_of, shared_copy
from evenstream.interruption import SignalsHeld
from evenstream.learner.engine import Engine
from evenstream.learner.prediction import (
    Costs,
    check_reject,
    cost_matrix,
    deployment_prior,
    least_cost,
    no_priors_by_logits,
)
from evenstream.policies.rules import InferenceRule

log = logging.getLogger(__name__)


class Copies:
    """Copies of everything that predictions read and that learning changes in place.

    Args:
        idle: where they are returned when no longer in use.
    """

    def __init__(self, idle: list[Copies]) -> None:
        self.twins, self.memory = Twins(), Memory(0)
        self._idle = idle

    def free(self) -> None:
        """Make them available again; called by the last thread that used them."""
        self._idle.append(self)


class Snapshot:
    """A learner's predictions as of one of its steps, whatever it has learned since.

    `Learner.snapshot` returns one. Any number of threads may use it at the same time.
    """

    _copies: Copies | None = None

    def __init__(
        self, learner: Engine, copies: Copies | None = None, before: Snapshot | None = None
    ) -> None:
        """Take a snapshot.

        Args:
            learner: the learner, which must not change in the meantime.
            copies: the copies to use; None uses the originals as long as the learner does not
                change.
            before: an earlier snapshot, to share unchanged parts with.
        """
        self.step = learner.step
        """Steps that the learner had made at the time."""
        self.label_map, self.preprocess, self.device = (
            learner.label_map,
            learner.preprocess,
            learner.device,
        )
        self._kind, self._table, self._front = (
            learner.input_kind,
            learner.known_table,
            learner.front,
        )
        self._composition, self._memory = learner.composition, learner.memory
        self._rule: InferenceRule = learner.composition.rule
        self._network = learner.network if learner.built else None
        self._lock = None if copies is None else Lock()
        self._prepared: dict[bool, Any] = {}
        self._when: Tensor | None = None
        self._calibration = copy.copy(learner.calibration)
        if copies is not None:
            self._copy(copies, None if before is None else before.label_map)

    def _copy(self, copies: Copies, labels: LabelMap | None) -> None:
        """Use copies of everything that the next step changes in place."""
        self._table, self._front = copy.copy(self._table), copy.copy(self._front)
        now = self.label_map
        same = labels is not None and len(labels) == len(now) and all(map(is_, labels, now))
        self.label_map = labels if same and labels is not None else LabelMap(now)
        if self._network is not None:
            twins: dict[Any, Any] = {}
            twins |= copies.twins.bring([self._network, *modules_of(self._rule)])
            self._network, self._rule = twins[self._network], shared_copy(self._rule, twins)
        if self._rule.reads_memory:
            copies.memory.follow(self._memory)
        self._when = self._typical_time()
        self._memory = copies.memory
        self._copies = copies

    def _typical_time(self) -> Tensor | None:
        """When all rows are taken to have come, to judge how familiar they look."""
        return None if self._front is not None else self._table.when(self._memory)

    def __del__(self) -> None:
        if self._copies is not None:
            self._copies.free()

    @property
    def labels(self) -> list[Label]:
        """Labels seen by then: the columns of `predict_proba`."""
        return list(self.label_map)

    def predict(
        self,
        x: Any,
        priors: Mapping[Any, float] | None = None,
        *,
        costs: Costs | None = None,
        reject: float | None = None,
    ) -> Array[Any]:
        """The most likely label of each row; see `Learner.predict`."""
        indices = self.predict_indices(x, priors, costs=costs, reject=reject)
        if not len(self.label_map):
            return np.full(len(indices), None)
        labels: Array[Any] = self.label_map.array()[indices]
        if reject is not None:
            labels = labels.astype(object)
            labels[indices < 0] = None
        return labels

    def predict_indices(
        self,
        x: Any,
        priors: Mapping[Any, float] | None = None,
        *,
        costs: Costs | None = None,
        reject: float | None = None,
    ) -> Array[np.int64]:
        """Like `predict`, as positions in `labels`; -1 instead of None."""
        matrix = None if costs is None else cost_matrix(self.label_map, costs)
        threshold = None if reject is None else self.familiarity_threshold(reject)
        scores = self._scores(x, priors)
        if scores.shape[1] == 0:
            return np.full(len(scores), -1)
        found = (scores.argmax(1) if matrix is None else least_cost(scores, matrix)).numpy()
        return found if threshold is None else np.where(self.familiarity(x) < threshold, -1, found)

    def familiarity(self, x: Any) -> Array[np.float32]:
        """How familiar each row looks; see `Learner.familiarity`."""
        batch = self._check(x)
        if self._network is None or not len(self.label_map):
            return np.zeros(len(batch), np.float32)
        when = self._when if self._lock is not None else self._typical_time()
        if when is not None:
            assert isinstance(batch, Tensor)
            batch = timeless(batch, when.to(batch.device))
        return self._each(self._network, batch, self._rule.familiarity).cpu().numpy()

    def familiarity_threshold(self, reject: float) -> float:
        """The familiarity that about this share of rows of known classes stays below."""
        return self._calibration.threshold(check_reject(reject))

    def predict_proba(self, x: Any, priors: Mapping[Any, float] | None = None) -> Array[np.float32]:
        """A probability for each row and each label in `labels`."""
        return self._scores(x, priors).softmax(1).numpy()

    def scores(self, x: Any, priors: Mapping[Any, float] | None = None) -> Array[np.float32]:
        """The inference rule's scores, with a column for each label in `labels`."""
        return self._scores(x, priors).numpy()

    def _scores(self, x: Any, priors: Mapping[Any, float] | None) -> Tensor:
        batch = self._check(x)
        log_prior = None
        if priors is not None:
            log_prior = deployment_prior(self._composition, self.label_map, priors)
        network, n_classes = self._network, len(self.label_map)
        if network is None or n_classes == 0:
            return torch.zeros(len(batch), 0)
        scores = self._each(network, batch, self._rule.scores, priors is not None)
        scores = scores[:, :n_classes].cpu()
        return scores if log_prior is None else scores + log_prior

    def _check(self, x: Any) -> Batch:
        rows, _ = self._table.take(x, self._kind)
        if self._front is not None:
            return self._front.check(rows, self._table.advice)
        return check_inputs(rows, self._kind, self._table.advice)

    def _each(
        self,
        network: Classifier,
        batch: Batch,
        ask: Callable[[Outputs, Any], Tensor],
        for_priors: bool = False,
    ) -> Tensor:
        """The rule's scores for rows, in eval mode, which copies are always in."""
        mine = self._lock is None
        set_kernel_threads()
        with SignalsHeld() if mine else nullcontext():
            raw = batch if self._front is None else self._front.plain(batch)
            assert isinstance(raw, Tensor)
            with evaluation_mode(network) if mine else torch.no_grad():
                prepared = self._prepare(network, for_priors)
                parts = [ask(out, prepared).float() for out in outputs(self, network, raw)]
                return torch.cat(parts)

    def _prepare(self, network: Classifier, for_priors: bool) -> Any:
        """What the rule needs, computed once for all users of this snapshot."""
        with nullcontext() if self._lock is None else self._lock:
            if for_priors not in self._prepared:
                self._prepared[for_priors] = self._prepare_rule(network, for_priors)
        return self._prepared[for_priors]

    def _prepare_rule(self, network: Classifier, for_priors: bool) -> Any:
        context = InferenceContext(network, self._memory, self.preprocess)
        if not for_priors:
            return self._rule.prepare(context)
        by_logits = no_priors_by_logits(self._composition) is None
        return self._rule.prepare_for_priors(context, by_logits=by_logits)

    def draws(self, row: Tensor) -> bool:
        """Whether predicting draws from PyTorch's generator, as steps do."""
        assert self._network is not None
        before = torch.get_rng_state()
        with torch.no_grad():
            self._network(self.preprocess.plain(row))
        moved = not torch.equal(before, torch.get_rng_state())
        torch.set_rng_state(before)
        return moved


class Snapshots:
    """The newest snapshot of a learner, once a second thread uses it.

    Until then there is none, and a learner used by one thread pays nothing. Copies that are no
    longer in use are recycled.
    """

    def __init__(self) -> None:
        self.newest: Snapshot | None = None
        self.why_not: str | None = None
        """Why there can be no snapshot."""
        self._thread = get_ident()
        """Id of the thread that created the learner."""
        self._wanted = self._tried = False
        self._free: list[Copies] = []
        self._dropped = 0

    def __reduce__(self) -> tuple[type[Snapshots], tuple[()]]:
        return Snapshots, ()  # a copy of a learner starts over

    def before_change(self, learner: Engine) -> None:
        """Called when a change begins; no snapshot can be taken until it is over."""
        if self.newest is None and (self._wanted or get_ident() != self._thread):
            self._take(learner)

    def after_change(self, learner: Engine) -> None:
        """Called when it is complete and can no longer be undone."""
        if self.newest is not None:
            self._take(learner)

    def find(self, learner: Engine, lock: Lock) -> Snapshot | None:
        """The newest, to predict with; None if the learner itself is to predict."""
        if self.newest is None and self.why_not is None and get_ident() != self._thread:
            self._wanted = True  # if not now, before the next change
            if GLOBAL_GENERATOR.acquire(blocking=False):
                try:
                    self.make(learner, lock)
                finally:
                    GLOBAL_GENERATOR.release()
        return self.newest

    def make(self, learner: Engine, lock: Lock) -> None:
        """Start taking snapshots, unless there are some; requires the global generator's lock."""
        with lock:
            if self.newest is None:
                self._take(learner)

    def _take(self, learner: Engine) -> None:
        if self.why_not is not None:
            return
        if learner.memory.dropped != self._dropped:  # no copy may keep what was deleted
            self._free, self._dropped = [], learner.memory.dropped
        try:
            copies = self._free.pop() if self._free else Copies(self._free)
            taken = Snapshot(learner, copies, self.newest)
            if not self._tried and learner.built:
                self._tried = True
                if taken.draws(learner.kind_of_inputs.example().to(learner.device)):
                    self.why_not = "its network draws random numbers to predict"
        except Exception as error:
            self.why_not = f"it cannot be copied ({type(error).__name__}: {error})"
        self.newest = taken if self.why_not is None else None
        if self.why_not is not None:
            log.warning("%s: predictions wait for steps: %s", learner.text, self.why_not)
