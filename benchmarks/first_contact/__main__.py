"""Predict, then learn, batch by batch; at the end predict the test rows."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.first_contact.rivals import Labels, Matrix, RandomRidge, Rival, rivals
from benchmarks.first_contact.streams import Stream, open_stream
from evenstream import Learner

NAMES = (
    "banking-wordllama", "banking-minilm", "clinc-wordllama", "clinc-minilm",
    "news-wordllama", "news-minilm",
    "image-segments", "banana", "phishing", "elec2", "outdoor",
)  # fmt: skip

SEEDLESS = ("nearest means", "nearest means, unscaled", "slda", "river softmax",
            "river hoeffding tree")  # fmt: skip
"""Who draws nothing: on a table, which comes in one order, any seed gives the same."""


class Evenstream:
    """`Learner()` with nothing set but the seed."""

    def __init__(self, seed: int) -> None:
        self.learner = Learner(seed=seed)

    def learn(self, x: Matrix, y: Labels) -> None:
        self.learner.learn(x.astype(np.float32), y.tolist())

    def predict(self, x: Matrix) -> Labels:
        return self.learner.predict(x.astype(np.float32)).astype(np.str_)


def examine(rival: Rival, stream: Stream) -> dict[str, float]:
    """Accuracy before learning, plain and averaged over classes, and final accuracy."""
    right: dict[str, list[bool]] = defaultdict(list)
    began = time.process_time()
    for number, (x, y) in enumerate(stream.batches()):
        if number:
            for label, answer in zip(y, rival.predict(x), strict=True):
                right[label].append(bool(label == answer))
        rival.learn(x, y)
    found = {
        "prequential": float(np.mean(np.concatenate([*right.values()]))),
        "balanced": float(np.mean([np.mean(own) for own in right.values()])),
        "seconds": time.process_time() - began,
    }
    if stream.x_test is not None and stream.y_test is not None:
        found["final"] = float((rival.predict(stream.x_test) == stream.y_test).mean())
    return found


def all_at_once(rival: Rival, stream: Stream) -> float:
    """Final accuracy of a model that learns all rows at once."""
    assert stream.x_test is not None and stream.y_test is not None
    rival.learn(stream.x, stream.y)
    return round(float((rival.predict(stream.x_test) == stream.y_test).mean()), 4)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_contact")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, metavar="NAME")
    parser.add_argument("--who", nargs="+", metavar="WHO", help="all if not given")
    parser.add_argument("--out", type=Path, default=Path("first-contact.jsonl"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = _read(asked.out)
    for seed in range(asked.seeds):
        for name in asked.only:
            stream = open_stream(name, asked.folder, seed)
            made: dict[str, Callable[[], Rival]] = {"Learner()": partial(Evenstream, seed)}
            made |= rivals(np.unique(stream.y), seed, stream.table)
            if stream.x_test is not None:
                made["ranpac"] = partial(RandomRidge, seed)
            for who, make in made.items():
                if (name, seed, who) in known or (asked.who and who not in asked.who):
                    continue
                if stream.table and who in SEEDLESS and (name, 0, who) in known:
                    found = known[name, 0, who]
                elif who == "ranpac":
                    found = {"final": all_at_once(make(), stream)}
                else:
                    found = {k: round(v, 4) for k, v in examine(make(), stream).items()}
                known[name, seed, who] = found
                _write(asked.out, {"stream": name, "seed": seed, "who": who, **found})


def _read(out: Path) -> dict[tuple[str, int, str], dict[str, float]]:
    """The results of earlier calls, so that this one can resume."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    found = {}
    for line in map(json.loads, lines):
        found[line.pop("stream"), line.pop("seed"), line.pop("who")] = line
    return found


def _write(out: Path, line: dict[str, object]) -> None:
    print(line, flush=True)
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
