"""An online learner as a River classifier (0.26 or newer)."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evenstream.adapting import bring_back, new_learner, written
from evenstream.augment import Augmentation
from evenstream.bounds import is_whole
from evenstream.core.drift import Adwin
from evenstream.core.heads import Head
from evenstream.core.optimizers import OptimizerFactory
from evenstream.errors import DataWarning, EvenstreamError, InputError, shown
from evenstream.learner.frozen import Frozen
from evenstream.learner.learner import Learner
from evenstream.methods import Method
from evenstream.options import DType, StepRows
from evenstream.policies.criteria import CrossEntropy
from evenstream.policies.retrieval import Retrieval
from evenstream.policies.rules import InferenceRule
from evenstream.policies.storing import Storing

try:
    from river import base
    from river.utils import dataframe
except ImportError as error:
    raise ImportError(
        f"evenstream.river needs River ({error}): pip install 'evenstream[river]'"
    ) from error

__all__ = ["SKIPPED_CHECKS", "Classifier"]

LEARNER = "learner"
SKIPPED_CHECKS = {
    "check_learn_many_matches_learn_one": (
        "learn_many makes one step with all rows, as River's own gradient descent does, and "
        "learn_one one step for each row"
    ),
}
"""River checks that cannot pass, with the reason."""

Features = Mapping[Any, Any]


class Classifier(base.MiniBatchClassifier):
    """A classifier for streams whose classes and features come and go.

    >>> from river import preprocessing
    >>> model = preprocessing.StandardScaler() | Classifier(seed=0)
    >>> model.learn_one({"height": 1.2, "width": 0.3}, "bolt")
    >>> model.predict_one({"height": 1.1})
    'bolt'

    A missing feature counts as 0. A new feature gets a column of its own while any are free: there
    is one for each feature of the first batch, and `spare` more. Beyond that, names share columns
    by a hash, and a warning says so.

    Args:
        method: see `evenstream.Learner`, as for all arguments up to `accumulate`. None means the
            learner chooses.
        model: the name of a network, or a module; like all other parts, it is copied before use.
        criterion: see `evenstream.Learner`.
        head: see `evenstream.Learner`.
        rule: the inference rule, which `evenstream.Learner` calls `predict`.
        retrieval: see `evenstream.Learner`.
        storing: see `evenstream.Learner`.
        memory: samples kept for replay.
        lr: learning rate.
        batch: see `evenstream.Learner`.
        replay_batch: stored samples replayed in each step.
        steps: updates for each batch.
        step_rows: see `evenstream.Learner`.
        optimizer: see `evenstream.Learner`.
        momentum: momentum of SGD.
        weight_decay: weight decay, with any optimiser.
        device: where the network and the memory live.
        dtype: as for `evenstream.Learner`; "float32" is the default, since with bfloat16 the
            probabilities of a row would depend on the rows next to it.
        augment: see `evenstream.Learner`.
        mean: see `evenstream.Learner`.
        std: see `evenstream.Learner`.
        scope: see `evenstream.Learner`.
        head_size: see `evenstream.Learner`.
        weights: see `evenstream.Learner`.
        drift: see `evenstream.Learner`.
        accumulate: collect rows until there are this many, then make one step with them.
        spare: columns for features that appear after the first batch.
        seed: seed for everything random; None draws one.
    """

    def __init__(
        self,
        method: str | Method | None = None,
        model: str | nn.Module | Frozen | None = None,
        *,
        criterion: CrossEntropy | None = None,
        head: Head | None = None,
        rule: InferenceRule | str | None = None,
        retrieval: Retrieval | None = None,
        storing: Storing | None = None,
        memory: int | None = None,
        lr: float | None = None,
        batch: int | None = None,
        replay_batch: int | None = None,
        steps: int | None = None,
        step_rows: StepRows | None = None,
        optimizer: str | OptimizerFactory | None = None,
        momentum: float | None = None,
        weight_decay: float | None = None,
        device: str | torch.device | None = None,
        dtype: DType = "float32",
        augment: str | Augmentation | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        scope: Literal["seen", "all"] | None = None,
        head_size: int | None = None,
        weights: str | Path | None = None,
        drift: Adwin | None = None,
        accumulate: int = 1,
        spare: int = 8,
        seed: int | None = None,
    ) -> None:
        if not (is_whole(spare) and spare >= 0):
            raise InputError(f"spare must be a whole number of 0 or more, got {shown(spare)}")
        self.method = method
        self.model = model
        self.criterion = criterion
        self.head = head
        self.rule = rule
        self.retrieval = retrieval
        self.storing = storing
        self.memory = memory
        self.lr = lr
        self.batch = batch
        self.replay_batch = replay_batch
        self.steps = steps
        self.step_rows = step_rows
        self.optimizer = optimizer
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.device = device
        self.dtype = dtype
        self.augment = augment
        self.mean = mean
        self.std = std
        self.scope = scope
        self.head_size = head_size
        self.weights = weights
        self.drift = drift
        self.accumulate = accumulate
        self.spare = spare
        self.seed = seed
        own = random.SystemRandom().randrange(2**31) if seed is None else seed
        self.learner: Learner = new_learner(self, accumulate=accumulate, seed=own)
        """The learner itself, for everything that River has no words for."""
        self.places = Places()

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        """River's checks do not scale features, so the network has to."""
        yield {"model": "mlp-norm"}

    def _unit_test_skips(self) -> set[str]:
        return set(SKIPPED_CHECKS)

    # ---- one row at a time ---------------------------------------------------------------------

    def learn_one(self, x: dict[Any, Any], y: base.typing.ClfTarget, w: float = 1.0) -> None:
        """Make a step with one row (or collect it); `w` is its weight in the loss."""
        self._learn([x], [y], [w])

    def predict_proba_one(
        self, x: dict[Any, Any], **kwargs: Any
    ) -> dict[base.typing.ClfTarget, float]:
        """A probability for each label seen so far."""
        (row,) = self._probabilities([x])
        return dict(zip(self.learner.labels, row.tolist(), strict=True))  # type: ignore[arg-type]

    def predict_one(
        self, x: dict[Any, Any], reject: float | None = None, **kwargs: Any
    ) -> base.typing.ClfTarget | None:
        """The most likely label.

        With `reject=0.05`, returns None where a row looks like no known class, and for about 5 % of
        rows of known classes.
        """
        best: base.typing.ClfTarget | None = super().predict_one(x, **kwargs)
        if reject is None or best is None:
            return best
        familiar = self.learner.familiarity(self.places.table([x]))[0]
        return None if familiar < self.learner.familiarity_threshold(reject) else best

    # ---- many ----------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Make one step with all rows of a frame (pandas, polars, pyarrow, ...)."""
        rows, labels = dicts(X), dataframe.into_series(y).to_list()
        each = isinstance(w, int | float)
        weights = [w] * len(rows) if each else dataframe.into_series(w).to_list()
        self._learn(rows, labels, weights)

    def predict_proba_many(self, X: Any) -> Any:
        """A column of probabilities for each label seen so far, in a frame like the given one."""
        found = self._probabilities(dicts(X))
        columns = {label: found[:, i] for i, label in enumerate(self.learner.labels)}
        return dataframe.to_native_frame(columns, like=dataframe.into_frame(X))

    def predict_many(self, X: Any) -> Any:
        """The most likely label of each row, in a series like the given frame."""
        found, labels = self._probabilities(dicts(X)), self.learner.labels
        best = [labels[i] for i in found.argmax(1)] if labels else [None] * len(found)
        return dataframe.to_native_series(best, name=None, like=dataframe.into_frame(X))

    # ---- inside --------------------------------------------------------------------------------

    def _learn(self, rows: Sequence[Features], labels: list[Any], weights: list[Any]) -> None:
        before = self.places.copy()
        self.places.take_in(rows, self.spare)
        try:
            self.learner.learn(self.places.table(rows), labels, weights=weights)
        except EvenstreamError:
            self.places = before
            raise

    def _probabilities(self, rows: Sequence[Features]) -> NDArray[np.float64]:
        """Probabilities, a column for each of the learner's labels; no columns before any step."""
        if not self.learner.labels:
            return np.zeros((len(rows), 0))
        return self.learner.scores(self.places.table(rows)).double().softmax(1).numpy()

    def __getstate__(self) -> dict[str, Any]:
        return written(vars(self), LEARNER)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        bring_back(self, LEARNER)


class Places:
    """Assigns each feature a column of the learner's inputs."""

    def __init__(self) -> None:
        self.width = 0
        """Number of columns, fixed by the first batch."""
        self.of: dict[Hashable, int] = {}
        self._shared = False

    def copy(self) -> Places:
        """A copy to go back to."""
        copied = Places()
        copied.width, copied.of, copied._shared = self.width, dict(self.of), self._shared
        return copied

    def take_in(self, rows: Sequence[Features], spare: int) -> None:
        """Give each new name a column, in an order that does not depend on the rows."""
        new = {name for row in rows for name in row if name not in self.of}
        if not self.width:
            self.width = max(len(new) + spare, 1)
        free = range(len(self.of), self.width)
        ordered = sorted(new, key=repr)
        self.of.update(zip(ordered, free, strict=False))
        if len(ordered) > len(free) and not self._shared:
            self._shared = True
            warnings.warn(
                f"there are more features than the {self.width} columns for them; new ones share "
                "columns from now on. To have more, create the classifier with spare=N",
                DataWarning,
                stacklevel=4,
            )

    def column(self, name: Hashable) -> int | None:
        """The column of a feature; None if it has none."""
        place = self.of.get(name)
        if place is None and len(self.of) == self.width:
            return zlib.crc32(repr(name).encode()) % self.width
        return place

    def table(self, rows: Sequence[Features]) -> NDArray[np.float32]:
        """Rows of equal length; a missing feature is 0, one without a column is left out."""
        made = np.zeros((len(rows), self.width))
        for row, features in zip(made, rows, strict=True):
            for name, value in features.items():
                place = self.column(name)
                if place is not None:
                    row[place] += number(name, value)
        with np.errstate(over="ignore"):  # the learner rejects infinite values
            return made.astype(np.float32)


def number(name: Hashable, value: Any) -> float:
    """A feature's value; rejects text and missing values."""
    if isinstance(value, int | float | np.number | np.bool_):
        return float(value)
    raise InputError(
        f"feature {shown(name)} is {shown(value)}, not a number; put an encoder before the "
        "classifier, such as river.preprocessing.OneHotEncoder"
    )


def dicts(X: Any) -> list[Features]:
    """The rows of a frame."""
    return [dict(row) for row in dataframe.into_frame(X).iter_rows(named=True)]
