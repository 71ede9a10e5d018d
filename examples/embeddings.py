"""Learn from embeddings made elsewhere; classes may appear at any time, and there are no settings.

    python examples/embeddings.py FILE.npz

FILE.npz has a matrix `x` and labels `y`, in order of arrival, and optionally `x_test` and
`y_test`. Each batch is predicted before it is learned, as in use.
"""

from __future__ import annotations

import sys

import numpy as np

from evenstream import Learner

BATCH = 10


def main(path: str) -> None:
    """Predict, then learn; print the accuracy along the way and on the test rows."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    x, labels = arrays["x"], arrays["y"].tolist()
    learner, right = Learner(), 0
    for first in range(0, len(x), BATCH):
        rows, truth = x[first : first + BATCH], labels[first : first + BATCH]
        if first:
            right += sum(learner.predict(rows) == truth)
        learner.learn(rows, truth)
    print(learner)
    print(f"before they were learned: {right / max(len(x) - BATCH, 1):.1%} right")
    if "x_test" in arrays:
        answers = learner.predict(arrays["x_test"])
        print(f"test rows: {np.mean(answers == arrays['y_test']):.1%} right")


if __name__ == "__main__":
    main(sys.argv[1])
