"""Tables to learn from, and what was learned."""

import csv
import io
import json
from pathlib import Path

from evenstream import Learner
from tests.helpers.small_streams import blobs

NAMES = ["a", "b", "c", "d", "e"]


def rows(n=60, seed=0, classes=3):
    x, y = blobs(n, classes=classes, seed=seed)
    return x * [1, 1e3, 1e-3, 10, 1], [f"kind {label}" for label in y]


def write(path, x, labels, names=NAMES, order=None, label="label"):
    header = [*names, label]
    order = order or header
    with Path(path).open("w", newline="") as file:
        out = csv.DictWriter(file, order, lineterminator="\n")
        out.writeheader()
        for values, name in zip(x.tolist(), labels, strict=True):
            out.writerow(dict(zip(header, [*values, name], strict=True)))
    return path


def metrics(folder="dir"):
    return json.loads((Path(folder) / "metrics.json").read_text())


def same(one, two):
    return Learner.load(one).fingerprint() == Learner.load(two).fingerprint()


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))
