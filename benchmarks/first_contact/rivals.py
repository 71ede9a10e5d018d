"""What you might use instead of a learner; each is independent of evenstream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

Matrix = NDArray[np.float64]
Labels = NDArray[np.str_]


class Rival(Protocol):
    """Predicts, then learns, batch by batch."""

    def learn(self, x: Matrix, y: Labels) -> None: ...

    def predict(self, x: Matrix) -> Labels: ...


class ClassSums:
    """Sums and numbers of rows, class by class."""

    def __init__(self) -> None:
        self.sums: dict[str, Matrix] = {}
        self.counts: dict[str, int] = {}

    def learn(self, x: Matrix, y: Labels) -> None:
        for label in np.unique(y):
            rows = x[y == label]
            self.sums[label] = self.sums.get(label, np.zeros(x.shape[1])) + rows.sum(0)
            self.counts[label] = self.counts.get(label, 0) + len(rows)

    def means(self) -> tuple[Labels, Matrix, Matrix]:
        """Labels, how many rows each has had, and their means."""
        counts = np.array([*self.counts.values()], dtype=np.float64)
        return np.array([*self.sums]), counts, np.array([*self.sums.values()]) / counts[:, None]


class PlainMeans(ClassSums):
    """Nearest class mean, with unscaled columns."""

    def predict(self, x: Matrix) -> Labels:
        labels, _, means = self.means()
        return nearest(x, means, labels)


class NearestMeans(ClassSums):
    """Nearest class mean, with columns scaled by their deviation so far."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = StandardScaler()

    def learn(self, x: Matrix, y: Labels) -> None:
        super().learn(x, y)
        self.scaler.partial_fit(x)

    def predict(self, x: Matrix) -> Labels:
        labels, _, means = self.means()
        return nearest(self.scaler.transform(x), self.scaler.transform(means), labels)


class StreamingLDA(ClassSums):
    """Class means and one covariance, shrunk by a hundredth of its mean variance."""

    def __init__(self) -> None:
        super().__init__()
        self.products: Matrix | float = 0.0

    def learn(self, x: Matrix, y: Labels) -> None:
        super().learn(x, y)
        self.products = self.products + x.T @ x

    def predict(self, x: Matrix) -> Labels:
        labels, counts, means = self.means()
        within = (self.products - (means * counts[:, None]).T @ means) / counts.sum()
        ridge = 0.01 * np.trace(within) / len(within) + 1e-12
        solved = np.linalg.solve(within + ridge * np.eye(len(within)), means.T)
        return _chosen(labels, x @ solved - 0.5 * (means.T * solved).sum(0))


def nearest(x: Matrix, means: Matrix, labels: Labels) -> Labels:
    return _chosen(labels, 2 * x @ means.T - (means**2).sum(1))


def _chosen(labels: Labels, scores: Matrix) -> Labels:
    found: Labels = labels[scores.argmax(1)]
    return found


class RandomRidge:
    """RanPAC: 2,000 random features and ridge regression, its penalty by a held-out fifth."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows: list[tuple[Matrix, Labels]] = []

    def learn(self, x: Matrix, y: Labels) -> None:
        self.rows.append((x, y))

    def predict(self, x: Matrix) -> Labels:
        seen = np.concatenate([rows for rows, _ in self.rows])
        labels, y = np.unique(np.concatenate([own for _, own in self.rows]), return_inverse=True)
        weights = self.rng.normal(size=(seen.shape[1], 2000))
        features, targets = np.maximum(seen @ weights, 0), np.eye(len(labels))[y]
        held = self.rng.random(len(seen)) < 0.2
        products, sums = features[~held].T @ features[~held], features[~held].T @ targets[~held]
        best = (1.0, -1.0)
        for ridge in (10.0**k for k in range(-6, 7)):
            made = np.linalg.solve(products + ridge * np.eye(2000), sums)
            right = float(((features[held] @ made).argmax(1) == y[held]).mean())
            best = (ridge, right) if right > best[1] else best
        products, sums = features.T @ features, features.T @ targets
        made = np.linalg.solve(products + best[0] * np.eye(2000), sums)
        return _chosen(labels, np.maximum(x @ weights, 0) @ made)


class SklearnSGD:
    """SGDClassifier with partial_fit, on scaled columns, given all classes in advance."""

    def __init__(self, classes: Labels, seed: int) -> None:
        self.classes, self.scaler = classes, StandardScaler()
        self.model = SGDClassifier(loss="log_loss", random_state=seed)

    def learn(self, x: Matrix, y: Labels) -> None:
        self.model.partial_fit(self.scaler.partial_fit(x).transform(x), y, self.classes)

    def predict(self, x: Matrix) -> Labels:
        answers: Labels = self.model.predict(self.scaler.transform(x))
        return answers


class River:
    """A River model behind River's StandardScaler, row by row."""

    def __init__(self, make: Callable[[], Any]) -> None:
        from river import preprocessing

        self.model = preprocessing.StandardScaler() | make()

    def learn(self, x: Matrix, y: Labels) -> None:
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), label)

    def predict(self, x: Matrix) -> Labels:
        return np.array([str(self.model.predict_one(dict(enumerate(row)))) for row in x.tolist()])


def rivals(classes: Labels, seed: int, table: bool) -> dict[str, Callable[[], Rival]]:
    """The rivals for a table, or for embeddings (on which River takes hours)."""
    found: dict[str, Callable[[], Rival]] = {
        "nearest means": NearestMeans,
        "nearest means, unscaled": PlainMeans,
        "slda": StreamingLDA,
        "sklearn partial_fit": lambda: SklearnSGD(classes, seed),
    }
    if table:
        from river import linear_model, tree

        found["river softmax"] = lambda: River(linear_model.SoftmaxRegression)
        found["river hoeffding tree"] = lambda: River(tree.HoeffdingTreeClassifier)
    return found
