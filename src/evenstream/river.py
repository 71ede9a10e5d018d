"""An online learner as a River classifier (0.26 or newer)."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenstream.adapting import LearnerParameters, bring_back, new_learner, written
from evenstream.bounds import is_whole
from evenstream.errors import DataWarning, EvenstreamError, InputError, shown
from evenstream.learner.learner import Learner

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


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(base.MiniBatchClassifier, LearnerParameters):
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
        method, model, ..., drift: see `LearnerParameters` and `evenstream.Learner`.
        accumulate: collect rows until there are this many, then make one step with them.
        spare: columns for features that appear after the first batch.
        seed: seed for everything random; None draws one.
    """

    accumulate: int = 1
    spare: int = 8
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (is_whole(self.spare) and self.spare >= 0):
            raise InputError(f"spare must be a whole number of 0 or more, got {shown(self.spare)}")
        own = random.SystemRandom().randrange(2**31) if self.seed is None else self.seed
        self.learner: Learner = new_learner(self, accumulate=self.accumulate, seed=own)
        """The learner itself, for everything that River has no words for."""
        self.places = Places()

    @property
    def _multiclass(self) -> bool:
        return True

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
        check_rows(rows)
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
        scores = torch.from_numpy(self.learner.scores(self.places.table(rows)))
        return scores.double().softmax(1).numpy()

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
        check_rows(rows)
        made = np.zeros((len(rows), self.width))
        for row, features in zip(made, rows, strict=True):
            for name, value in features.items():
                place = self.column(name)
                if place is not None:
                    row[place] += number(name, value)
        with np.errstate(over="ignore"):  # the learner rejects infinite values
            return made.astype(np.float32)


def check_rows(rows: Sequence[Features]) -> None:
    """Reject rows that are no dictionaries."""
    for row in rows:
        if not isinstance(row, Mapping):
            raise InputError(
                f"a row must be a dictionary of features, got a {type(row).__name__}; frames go to "
                "learn_many, predict_many and predict_proba_many"
            )


def number(name: Hashable, value: Any) -> float:
    """A feature's value; rejects text and missing values."""
    if isinstance(value, int | float | np.number | np.bool_):
        return float(value)
    if value is None:
        raise InputError(
            f"feature {shown(name)} is missing (None); leave it out, so that it counts as 0, or "
            "fill it by river.preprocessing.StatImputer before the classifier"
        )
    raise InputError(
        f"feature {shown(name)} is {shown(value)}, not a number; put an encoder before the "
        "classifier, such as river.preprocessing.OneHotEncoder"
    )


def dicts(X: Any) -> list[Features]:
    """The rows of a frame."""
    return [dict(row) for row in dataframe.into_frame(X).iter_rows(named=True)]
