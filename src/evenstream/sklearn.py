"""An online learner as a scikit-learn classifier (1.6 or newer; tested with 1.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from evenstream.adapting import LearnerParameters, bring_back, new_learner, written
from evenstream.bounds import is_whole
from evenstream.errors import InputError
from evenstream.learner.learner import Learner
from evenstream.showing import Line
from evenstream.tabular import TableEncoder, TableRows, is_frame

if TYPE_CHECKING:  # scikit-learn has no types; with unknown bases any parameter would be accepted

    class BaseEstimator:
        """What a classifier inherits from `sklearn.base.BaseEstimator`."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name."""

        def set_params(self, **params: Any) -> Self:
            """Set parameters by name."""

        def get_metadata_routing(self) -> Any:
            """See scikit-learn."""

        def __sklearn_tags__(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...

    class ClassifierMixin:
        """What it inherits from `sklearn.base.ClassifierMixin`."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """The accuracy."""
else:
    from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["EXPECTED_FAILURES", "OnlineClassifier"]

LEARNER = "learner_"
EPOCHS = 1
"""Default passes of `fit`; docs/how-to/sklearn.md has the measurement."""
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are learned in batches of a random order, where a row that comes twice meets other "
        "rows than one of weight 2, and the prior of Logit Adjusted Softmax counts rows"
    ),
}
"""scikit-learn checks that cannot pass, with the reason, for `expected_failed_checks`."""

TEXTS = (
    "OnlineClassifier takes matrices and frames, not texts: pass a frame with a column of them, or "
    "what an encoder makes of them; evenstream.Learner(model='wordllama') takes texts themselves"
)
Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineClassifier(ClassifierMixin, BaseEstimator, LearnerParameters):
    """A classifier that `partial_fit` teaches more, even new classes, with far less forgetting.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = OnlineClassifier(epochs=5, random_state=0).fit(X[:100], y[:100])
    >>> classifier.partial_fit(X[100:], y[100:]).classes_  # a class that was never announced
    array([0, 1, 2])

    Args:
        method, model, ..., drift: see `LearnerParameters` and `evenstream.Learner`;
            `fit` and `partial_fit` split their data into batches of `batch` rows.
        epochs: passes of `fit` over its data; `partial_fit` always makes one.
        class_weight: None, `{label: weight}` (1 for labels not listed), or "balanced",
            which needs all labels at once and so is for `fit` only.
        random_state: a seed, a NumPy generator, or None for a random seed.
        verbose: show the progress of `fit` in a line that updates in place.

    Attributes:
        classes_: the labels seen or announced so far, sorted: the columns of `predict_proba`.
        learner_: the `evenstream.Learner`, whose own labels stay in order of arrival.
        n_features_in_: number of input columns.
        feature_names_in_: their names, if the inputs had any.
        table_: how columns become inputs, if the first frame had columns of text, categories or
            dates, or missing cells.
    """

    epochs: int = EPOCHS
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from scratch, in `epochs` passes over the data in random order.

        Rows enter the memory in the first pass. Rows with weight 0 are left out.
        """
        if not (is_whole(self.epochs) and self.epochs >= 1):
            raise InputError(f"epochs must be a whole number of 1 or more, got {self.epochs!r}")
        X, y = self._data(X, y, reset=True)
        classes = merged(y)
        rows, row_weights = self._weighed(X, y, sample_weight, balanced=True)
        seed = self._seed()
        learner, order = new_learner(self, seed=seed), np.random.default_rng(seed)
        epochs = self.epochs if len(set(y[rows].tolist())) > 1 else 1
        with Line() as line:
            for epoch in range(epochs):
                if self.verbose:
                    line.show(f"epoch {epoch + 1} of {epochs}, step {learner.step:,}")
                drawn = order.permutation(rows)
                one_pass(learner, X, y, row_weights, drawn, store=epoch == 0)
        self.learner_, self.classes_ = learner, classes
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue learning: one pass over the data in the given order, in batches.

        New labels are welcome. `classes` may announce some at any time: they then appear in
        `classes_`, with probability 0 until they have been seen.
        """
        first = not hasattr(self, "learner_")
        X, y = self._data(X, y, reset=first)
        before = [] if first else [self.classes_]
        announced = [] if classes is None else [column_or_1d(classes)]
        known = merged(*before, *announced, y)
        rows, row_weights = self._weighed(X, y, sample_weight, balanced=False)
        learner = new_learner(self, seed=self._seed()) if first else self.learner_
        one_pass(learner, X, y, row_weights, rows)
        self.learner_, self.classes_ = learner, known
        return self

    def predict(self, X: Any, reject: float | None = None) -> Array:
        """The most likely label of each row.

        With `reject=0.05`, returns None (in an array of Python objects) where a row looks like no
        known class, and for about 5 % of rows of known classes.
        """
        best = self.predict_proba(X).argmax(1)
        labels: Array = self.classes_[best]
        if reject is not None:
            threshold = self.learner_.familiarity_threshold(reject)
            labels = labels.astype(object)
            labels[self.score_samples(X) < threshold] = None
        return labels

    def score_samples(self, X: Any) -> NDArray[np.float32]:
        """How familiar each row looks, compared with the known classes; higher is more familiar."""
        check_is_fitted(self)
        return self.learner_.familiarity(self._rows(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """A probability for each row and each label of `classes_`."""
        check_is_fitted(self)
        scores = torch.from_numpy(self.learner_.scores(self._rows(X))).double()
        probabilities = np.zeros((len(scores), len(self.classes_)))
        places = np.searchsorted(self.classes_, np.array(self.learner_.labels, self.classes_.dtype))
        probabilities[:, places] = scores.softmax(1).numpy()
        return self._weighed_classes(probabilities)

    def _weighed_classes(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply weights to the probabilities of closed forms, which assume equally frequent
        classes.

        "balanced" means equally frequent, and so changes nothing.
        """
        given = self.class_weight
        if not isinstance(given, Mapping) or self.learner_.composition.rule.weighs_classes:
            return probabilities
        weighed = probabilities * [given.get(label, 1.0) for label in self.classes_.tolist()]
        totals = weighed.sum(1, keepdims=True)
        found: NDArray[np.float64] = np.where(
            totals > 0, weighed / np.where(totals > 0, totals, 1.0), probabilities
        )
        return found

    # ---- inputs --------------------------------------------------------------------------------

    def _rows(self, X: Any) -> Any:
        """Inputs, checked as scikit-learn requires."""
        return self._checked(X, reset=False, table=self._table)

    def _data(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array]:
        """Inputs and labels, checked as scikit-learn requires."""
        table = is_table(X) if reset else self._table
        if isinstance(X, (list, tuple)) and X and isinstance(X[0], str):
            raise InputError(TEXTS)
        if table:
            rows, labels = self._checked(X, reset=reset, table=True), column_or_1d(y, warn=True)
            check_consistent_length(rows, labels)
        else:
            rows, labels = self._matrix(X, y, reset=reset)
        self._table = table
        check_classification_targets(labels)
        return rows, labels

    def _matrix(self, X: Any, *y: Any, reset: bool) -> Any:
        """A matrix, and labels if there are any."""
        try:
            return validate_data(self, X, *y, reset=reset, allow_nd=True, dtype=dtype_of(X))
        except ValueError as error:
            if reset or hasattr(self, "feature_names_in_") or not is_table(X):
                raise
            raise InputError(
                "the classifier was fitted on a matrix of numbers; pass one like it"
            ) from error

    _table = False
    """Whether it was fitted on a table that is more than a matrix of numbers."""

    def _checked(self, X: Any, *, reset: bool, table: bool) -> Any:
        """Inputs: a matrix, or the encoded rows of a table."""
        if not table:
            return self._matrix(X, reset=reset)
        if not is_frame(X):
            raise InputError("the classifier was fitted on a table; pass a frame with its columns")
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self.table_ = TableEncoder.infer(X)
        return TableRows(self.table_.encode_frame(X), self.table_)

    def _weighed(
        self, X: Array, y: Array, sample_weight: Any, *, balanced: bool
    ) -> tuple[Array, Array | None]:
        """The rows with positive weight, and their weights; None if all are equal."""
        if sample_weight is None and self.class_weight is None:
            return np.arange(len(y)), None
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        if isinstance(self.class_weight, str) and not balanced:
            raise InputError(
                f"class_weight={self.class_weight!r} needs all labels at once, and partial_fit "
                "never has them; give {label: weight}"
            )
        weights = weights * compute_sample_weight(self.class_weight, y)
        rows = np.flatnonzero(weights)
        if not len(rows):
            raise InputError("all rows have weight 0, so there is nothing to learn from")
        return rows, weights

    def _seed(self) -> int:
        """An integer seed is used directly, so that the learner equals `Learner(seed=...)`."""
        given = self.random_state
        if isinstance(given, int | np.integer):
            return int(given)
        return int(check_random_state(given).randint(2**31 - 1))

    # ---- pickles ---------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return written(super().__getstate__(), LEARNER)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        bring_back(self, LEARNER)


def is_table(X: Any) -> bool:
    """Whether this is a frame with columns other than numbers, or with missing cells."""
    return is_frame(X) and not TableEncoder.infer(X).obvious


def dtype_of(X: Any) -> Any:
    """Tables become float32; images keep their type, so that uint8 is scaled to 0..1."""
    return np.float32 if getattr(X, "ndim", 2) <= 2 else "numeric"


def one_pass(
    learner: Learner, X: Array, y: Array, weights: Array | None, rows: Array, store: bool = True
) -> None:
    """Learn from rows in the given order, in batches."""
    for start in range(0, len(rows), learner.options.batch):
        chosen = rows[start : start + learner.options.batch]
        own = None if weights is None else weights[chosen]
        learner.learn(part_of(X, chosen), plain(y[chosen]), weights=own, store=store)


def part_of(X: Any, rows: Array) -> Any:
    """Some rows of a matrix or an encoded table."""
    return TableRows(X.values[rows], X.encoder) if isinstance(X, TableRows) else X[rows]


def plain(labels: Array) -> list[Any]:
    """Labels for the learner, which does not accept fractions."""
    return [int(label) if isinstance(label, float) else label for label in labels.tolist()]


def merged(*parts: Array) -> Array:
    """The distinct labels, sorted; rejects labels that have no order."""
    kinds = {kind_of(cls) for part in parts for cls in set(map(type, part.tolist()))}
    if len(kinds) > 1:
        mixed = " and ".join(sorted(kinds))
        raise InputError(f"labels must be of one kind to be sorted, got {mixed}")
    return np.unique(np.concatenate(parts))


def kind_of(cls: type) -> str:
    """Labels in words; to a learner, True is not 1."""
    for word, classes in (("text", str), ("booleans", bool), ("numbers", (int, float))):
        if issubclass(cls, classes):
            return word
    return cls.__name__
