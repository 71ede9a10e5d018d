"""How many passes `OnlineClassifier.fit` needs: accuracy and time by epochs on scikit-learn's sets.

    python tools/measure_epochs.py

Five stratified folds of each data set that comes with scikit-learn, columns standardised, three
seeds; all else as the learner has it by default. docs/how-to/sklearn.md has the table it prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenstream.sklearn import OnlineClassifier

DATA: dict[str, Callable[..., Any]] = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
EPOCHS = (1, 2, 5, 10, 20, 50)
SEEDS = (0, 1, 2)


def accuracy(name: str, epochs: int) -> float:
    """Mean over folds and seeds, in per cent."""
    X, y = DATA[name](return_X_y=True)
    scores = []
    for seed in SEEDS:
        classifier = OnlineClassifier(epochs=epochs, random_state=seed)
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        scores.append(cross_val_score(make_pipeline(StandardScaler(), classifier), X, y, cv=folds))
    return 100 * float(np.mean(scores))


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    print("| epochs |", " | ".join(DATA), "| mean | seconds, all fits |")
    print("|---|" + "---|" * (len(DATA) + 2))
    for epochs in EPOCHS:
        began = time.perf_counter()
        found = [accuracy(name, epochs) for name in DATA]
        cells = [f"{value:.1f}" for value in (*found, np.mean(found))]
        print(
            f"| {epochs} |", " | ".join(cells), f"| {time.perf_counter() - began:.0f} |", flush=True
        )


if __name__ == "__main__":
    main()
