"""`mlp-norm`: columns of any scale, from the first batch on."""

import numpy as np
import pytest
import torch

from evenstream import networks
from tests.helpers.small_streams import feed, small

SCALE = np.array([1e-6, 1.0, 1e3, 1e6, 50.0])
SHIFT = np.array([0.0, 0.0, -5e3, 3e7, 1e5])


def table(steps, seed=0, batch=10):
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(4, 5)) * 2
    found = []
    for _ in range(steps):
        y = draw.integers(0, 4, batch)
        x = centres[y] + 0.5 * draw.normal(size=(batch, 5))
        found.append((x * SCALE + SHIFT, [f"kind {value}" for value in y]))
    return found


def accuracy(learner, batches):
    hits = [
        a == b for x, labels in batches for a, b in zip(learner.predict(x), labels, strict=True)
    ]
    return np.mean(hits)


def test_wild_scales_are_learned_where_a_plain_mlp_fails():
    normed = feed(small(model="mlp-norm", lr=0.1), table(40))
    plain = feed(small(model="mlp", lr=0.1), table(40))
    assert accuracy(normed, table(10, seed=1)) > 0.9
    assert accuracy(plain, table(10, seed=1)) < 0.6


def test_running_statistics_are_the_mean_over_the_first_batches_and_then_follow():
    norm = networks.build("mlp-norm", (5,)).train().norm
    batches = [torch.tensor(x, dtype=torch.float32) for x, _ in table(150)]
    for count, x in enumerate(batches, 1):
        norm(x)
        if count in (1, 2, 50):
            mean = torch.stack([b.mean(0) for b in batches[:count]]).mean(0)
            torch.testing.assert_close(norm.running_mean, mean, rtol=1e-4, atol=1e-7)
    before = norm.running_mean.clone()
    norm(batches[0])
    expected = 0.99 * before + 0.01 * batches[0].mean(0)
    torch.testing.assert_close(norm.running_mean, expected, rtol=1e-5, atol=1e-7)


def test_nothing_is_learned_about_the_future_by_predicting():
    learner = feed(small(model="mlp-norm"), table(3))
    before = learner.fingerprint()
    learner.predict(table(1, seed=2)[0][0])
    assert learner.fingerprint() == before


@pytest.mark.parametrize("memory", [0, 12])
def test_single_rows_are_learned(memory):
    learner = small("er", "mlp-norm", memory=memory)
    for x, labels in table(4):
        for row, label in zip(x, labels, strict=True):
            result = learner.learn(row[None], [label])
            assert np.isfinite(result.loss)
    assert np.isfinite(learner.predict_proba(x)).all()


def test_a_constant_column_does_no_harm_even_when_it_moves():
    learner = small(model="mlp-norm", lr=0.1)
    for x, labels in table(40):
        learner.learn(np.c_[x, np.full(len(x), 7.0)], labels)
    x, labels = table(1, seed=1)[0]
    still, moved = (learner.predict_proba(np.c_[x, np.full(len(x), v)]) for v in (7.0, 1e9))
    assert np.isfinite(still).all() and np.isfinite(moved).all()
    assert learner.predict(np.c_[x, np.full(len(x), 7.0)]).tolist() == labels


def test_resumes_exactly(tmp_path):
    whole = feed(small(model="mlp-norm"), table(20))
    cut = feed(small(model="mlp-norm"), table(20)[:9])
    cut.save(tmp_path)
    again = feed(type(cut).load(tmp_path), table(20)[9:])
    assert again.fingerprint() == whole.fingerprint()
