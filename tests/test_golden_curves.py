"""Loss curves of short runs, kept as text: a change of behaviour shows up as a diff.

Regenerate after an intended change with `python tests/test_golden_curves.py` and look at the diff.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from evenstream import Learner
from evenstream.streams import open_stream

FOLDER = Path(__file__).parent / "golden"
CASES = {
    "er_mlp": ("er", "mlp", "none"),
    "er-las_mlp": ("er-las", "mlp", "none"),
    "er-las_convnet": ("er-las:window=3", "convnet", "crop1"),
}


def losses(method, network, augment):
    """The loss at each of the first 60 steps of c-digits, spread over its tasks."""
    stream = open_stream("c-digits", seed=1)
    learner = Learner(
        method, network, memory=100, lr=0.1, replay_batch=10, seed=1, dtype="float32",
        augment=augment,
    )  # fmt: skip
    curve = []
    for task in range(len(stream)):
        for batch, _ in zip(stream.batches(task, 10), range(12), strict=False):
            curve.append(learner.learn(batch.x, batch.labels).loss)
    return curve


@pytest.mark.parametrize("name", CASES)
def test_loss_curve_is_the_stored_one(name):
    stored = np.loadtxt(FOLDER / f"{name}.txt")
    # Kernels round differently from one processor to the next; a changed algorithm is far beyond.
    np.testing.assert_allclose(losses(*CASES[name]), stored, rtol=5e-3, atol=5e-4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, case in CASES.items():
        np.savetxt(FOLDER / f"{name}.txt", losses(*case), fmt="%.6f")
