"""Compare `Learner()` without settings with River's softmax regression and Hoeffding tree.

    python examples/table_beside_river.py [NAME] [ROWS]

NAME is a data set of River that its wheel contains: ImageSegments, Bananas or Phishing. Everyone
predicts ten rows, then learns them; River's models get scaled inputs. Needs
`pip install 'evenstream[river]'`.
"""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np
from river import datasets, linear_model, preprocessing, tree

from evenstream import Learner

BATCH = 10


def main(name: str, rows: int) -> None:
    """Print the accuracy of each before learning: over all rows, and averaged over classes."""
    stream = list(islice(getattr(datasets, name)(), rows))
    learner = Learner()
    models = {
        "softmax": preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
        "Hoeffding tree": preprocessing.StandardScaler() | tree.HoeffdingTreeClassifier(),
    }
    truth: list[object] = []
    answers: dict[str, list[object]] = {"Learner()": [], **{who: [] for who in models}}
    for first in range(0, len(stream), BATCH):
        now = stream[first : first + BATCH]
        x, labels = np.array([[*row.values()] for row, _ in now]), [label for _, label in now]
        if first:
            truth += labels
            answers["Learner()"] += learner.predict(x).tolist()
            for who, model in models.items():
                answers[who] += [model.predict_one(row) for row, _ in now]
        learner.learn(x, labels)
        for model in models.values():
            for row, label in now:
                model.learn_one(row, label)
    print(learner)
    classes = sorted(set(truth), key=str)
    for who, given in answers.items():
        right = np.array([a == b for a, b in zip(given, truth, strict=True)])
        of_class = [right[[label == each for label in truth]].mean() for each in classes]
        print(f"{who:15} {right.mean():6.1%} of all rows, {np.mean(of_class):6.1%} class by class")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="ImageSegments")
    parser.add_argument("rows", nargs="?", type=int, default=10**6)
    asked = parser.parse_args()
    main(asked.name, asked.rows)
