"""Embeddings in two views and streams of small images, for SCR, PCR and OCM."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from tests.helpers.small_streams import images, small

# Two samples of labels 0 and 1, all first views before all second ones.
VIEWS = torch.tensor([[1.0, 0], [0, 1], [0.6, 0.8], [-0.8, 0.6]])
LABELS = torch.tensor([0, 1, 0, 1])

sizes = st.integers(1, 6)
seeds = st.integers(0, 10_000)


def random_views(seed, n, size=5):
    """Unit embeddings of n samples in two views, and labels."""
    draw = torch.Generator().manual_seed(seed)
    embeddings = F.normalize(torch.randn(2 * n, size, generator=draw, dtype=torch.float64), dim=1)
    return embeddings, torch.randint(3, (n,), generator=draw).repeat(2)


def colour_stream(steps=6, batch=4, channels=3, side=8):
    """Batches of images, in which two classes come first and two others second."""
    x = images(steps * batch, side, channels, seed=1)
    labels = [f"class {2 * (row * 2 // len(x)) + row % 2}" for row in range(len(x))]
    return [(x[i : i + batch], labels[i : i + batch]) for i in range(0, len(x), batch)]


def image_learner(method, **options):
    """A learner of images, in its first task if the method needs tasks."""
    learner = small(method, "convnet", **{"batch": 4, **options})
    if "boundaries" in learner.needs:
        learner.start_task()
    return learner
