"""CLINC150: are queries without an intent distinguished from those with one?

    python -m benchmarks.unknown_classes FOLDER [--minilm MODEL]

FOLDER holds data_full.json of github.com/clinc/oos-eval. `Learner()` learns the 150 intents, 15 at
a time, and is then asked about the test queries and about those out of scope. MODEL is as in
`benchmarks.first_contact.prepare`; without it, the embeddings are wordllama's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from benchmarks.first_contact.prepare import embed, minilm, wordllama
from evenstream import Learner

GROUPS, BATCH, REJECT = 10, 100, 0.05


def embedded(folder: Path, model: Path | None) -> dict[str, np.ndarray]:
    """Inputs and labels of each part; embedded only once."""
    kept = folder / f"{'wordllama' if model is None else 'minilm'}.npz"
    if not kept.exists():
        encode = wordllama() if model is None else minilm(model)
        made = {}
        for part, pairs in json.loads((folder / "data_full.json").read_text()).items():
            made[f"{part} x"] = embed(encode, [text for text, _ in pairs])
            made[f"{part} y"] = np.array([intent for _, intent in pairs])
        np.savez(kept, **made)
    with np.load(kept, allow_pickle=False) as file:
        return dict(file)


def examine(data: dict[str, np.ndarray], seed: int, part: str) -> dict[str, float]:
    """Learn all intents; return how well familiarity separates queries, and the shares rejected."""
    draw, learner = np.random.default_rng(seed), Learner(seed=seed)
    x, y = data["train x"], data["train y"]
    group = {intent: at * GROUPS // 150 for at, intent in enumerate(draw.permutation(np.unique(y)))}
    order = sorted(draw.permutation(len(x)), key=lambda row: group[y[row]])
    for first in range(0, len(order), BATCH):
        rows = order[first : first + BATCH]
        learner.learn(x[rows], y[rows])
    known, unknown = (learner.familiarity(data[f"{name} x"]) for name in (part, f"oos_{part}"))
    threshold = learner.familiarity_threshold(REJECT)
    truth = np.repeat([1, 0], [len(known), len(unknown)])
    return {
        "accuracy": float((learner.predict(data[f"{part} x"]) == data[f"{part} y"]).mean()),
        "auroc": float(roc_auc_score(truth, np.concatenate([known, unknown]))),
        "known rejected": float((known < threshold).mean()),
        "unknown rejected": float((unknown < threshold).mean()),
    }


def main() -> None:
    """Print a line for each seed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unknown_classes")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--part", choices=("val", "test"), default="test")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = embedded(given.folder, given.minilm)
    for seed in given.seeds:
        found = examine(data, seed, given.part)
        print(seed, *(f"{name} {value:.4f}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
