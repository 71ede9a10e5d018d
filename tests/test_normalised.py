"""The normalising front for flat inputs."""

import numpy as np
import torch

from evenstream import Learner
from evenstream.networks.normalised import Normalise, bent
from tests.helpers.small_streams import blobs


def shown(*batches):
    front = Normalise(batches[0].shape[1])
    for batch in batches:
        front(batch)
    return front.eval()


def test_statistics_are_those_of_all_rows():
    x = torch.randn(90, 3, generator=torch.Generator().manual_seed(0)) * 5 + 100
    front = shown(*x.split([1, 9, 30, 50]))
    torch.testing.assert_close(front.mean, x.double().mean(0))
    torch.testing.assert_close(front.variance, x.double().var(0, correction=0))
    torch.testing.assert_close(front(x).mean(0), torch.zeros(3), atol=0.1, rtol=0)


def test_training_and_prediction_see_the_same():
    x = torch.randn(50, 3)
    front = Normalise(3)
    trained = front(x)
    assert torch.equal(front.eval()(x), trained)
    before = front.mean.clone()
    front(x + 5)
    assert torch.equal(front.mean, before)


def test_constant_columns_are_zero():
    x = torch.full((20, 2), 1e6)
    x[:, 1] = torch.arange(20.0)
    assert torch.equal(shown(x)(x)[:, 0], torch.zeros(20))


def test_an_outlier_neither_drowns_the_rest_nor_dominates():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 1, generator=draw)
    front = shown(x, torch.tensor([[1e12]]))
    assert 0.5 < float(front(x).std()) < 1.5
    assert float(front(torch.tensor([[1e12]]))) < 40


def test_the_bend_is_smooth_and_keeps_the_order():
    x = torch.linspace(-50, 50, 2001, dtype=torch.float64)
    y = bent(x)
    assert torch.equal(y[x.abs() <= 3], x[x.abs() <= 3]) and bool((y.diff() > 0).all())
    assert float((y.diff() / x.diff()).max()) < 1 + 1e-9


def test_it_follows_a_stream_that_moves():
    draw = torch.Generator().manual_seed(0)
    front = Normalise(1)
    for _ in range(300):
        front(torch.randn(100, 1, generator=draw))
    for _ in range(300):
        front(torch.randn(100, 1, generator=draw) + 5)
    assert abs(float(front.mean) - 5) < 0.5


def test_the_statistics_are_undone_saved_and_resumed(tmp_path):
    learner = Learner("er", "normalised")
    learner.learn(*blobs(20))
    before = learner.fingerprint()
    try:
        learner.learn(np.full((2, 5), 3e38), [0, "new"])
    except Exception:
        assert learner.fingerprint() == before
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path)
    for each in (learner, loaded):
        each.learn(*blobs(10, seed=1))
    assert loaded.fingerprint() == learner.fingerprint()
