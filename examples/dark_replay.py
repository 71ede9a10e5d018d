"""Dark Experience Replay as a method of one's own, and how much it remembers compared with others.

    python examples/dark_replay.py --picture remembered.png

The command line finds the method, too: `EVENSTREAM_PLUGINS=examples/dark_replay.py`. Needs
`pip install 'evenstream[report]'`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor

from evenstream import Learner, Method, Step, register
from evenstream.core.rows import Rows


@register("my-der")
@dataclass
class DarkReplay(Method):
    """Replay stored logits instead of labels."""

    citation = "Buzzega et al., Dark Experience for General Continual Learning, 2020"
    cost = "F(b) + F(m) + G(b+m)"
    logits_follow_criterion = False  # the distillation term shapes them, too

    alpha: float = 0.1
    """Weight of the distance to the stored logits."""

    def training_rows(self, step: Step) -> list[Rows]:
        """The incoming rows alone."""
        step.notes["replayed"] = step.retrieve()  # no label of these is scored ...
        return [step.incoming]  # ... so the criterion counts the incoming labels only

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy of the new rows, and the distance of old logits to the stored ones."""
        logits = step.net(step.incoming.x)
        step.remember(logits=logits)  # stored with the rows that enter the memory
        loss = step.ce(logits, step.incoming.y)
        replayed = step.notes["replayed"]
        if len(replayed):
            stored = replayed.fields["logits"]
            known = step.net(replayed.x)[:, : stored.shape[1]]
            loss = loss + self.alpha * F.mse_loss(known, stored)
        return loss


METHODS = {"fine-tune": "#9ca3af", "er": "#0f766e", "my-der": "#1d4ed8", "my-der-las": "#c2410c"}


def remembered(method: str, seed: int) -> list[float]:
    """Accuracy on all digits seen so far, after each pair of digits."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = x[order].astype(np.float32) / 16, y[order]
    learner = Learner(method, model="mlp", memory=200, lr=0.1, batch=10, seed=seed)
    found = []
    for first in range(0, 10, 2):
        rows = np.flatnonzero((y[:1300] == first) | (y[:1300] == first + 1))
        for start in range(0, len(rows), 10):
            batch = rows[start : start + 10]
            learner.learn(x[batch], y[batch])
        test = 1300 + np.flatnonzero(y[1300:] < first + 2)
        found.append(100 * float(np.mean(learner.predict(x[test]) == y[test])))
    return found


def draw(curves: dict[str, list[int]], picture: Path) -> None:
    """A line for each method."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, values in curves.items():
        axes.plot(range(2, 12, 2), values, "o-", color=METHODS[name], label=name)
    axes.set(xlabel="digits seen", ylabel="right, % of all digits seen", ylim=(0, 103))
    axes.set_xticks(range(2, 12, 2))
    axes.legend(frameon=False, loc="lower left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=150, metadata={"Data": json.dumps(curves)})


def main() -> None:
    """Learn pairs of digits one after the other, with a few seeds, and draw the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--picture", type=Path, default=Path("remembered.png"))
    args = parser.parse_args()
    curves = {}
    for name in METHODS:
        runs = [remembered(name, seed) for seed in range(args.seeds)]
        curves[name] = [round(float(value)) for value in np.mean(runs, axis=0)]
        print(f"{name:11} {curves[name][-1]} % of ten digits right")
    draw(curves, args.picture)


if __name__ == "__main__":
    main()
