"""`learn(..., weights=...)`: what a row counts in the mean of the loss, and when it is replayed."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evenstream import EvenstreamError, Learner
from evenstream.composition import compose
from evenstream.core.memory import WEIGHT
from evenstream.methods import METHODS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5)).astype("f4")
Y = [0, 1, 2] * 4
W = RNG.uniform(0.1, 3, 12)
FITTING = [
    name
    for name, made in ((name, compose(name)) for name in METHODS)
    if made.method.weighs_rows and "boundaries" not in made.needs
]


def small(method="er", **options):
    return Learner(method, "mlp", **({"memory": 20, "lr": 0.1, "replay_batch": 8} | options))


def test_the_loss_is_the_weighted_mean():
    learner = small("fine-tune")
    learner.learn(X, Y)
    logits = torch.from_numpy(learner.scores(X))
    losses = F.cross_entropy(logits, torch.tensor(Y), reduction="none").double().numpy()
    loss = learner.learn(X, Y, weights=W).loss
    assert loss == pytest.approx((W * losses).sum() / W.sum(), rel=1e-5)


@pytest.mark.parametrize("method", ["fine-tune", "er-ace", "labels-trick"])
def test_a_row_of_weight_2_is_one_that_comes_twice(method):
    """Not so for Logit Adjusted Softmax, whose prior counts rows."""
    weighed, repeated = small(method, memory=20), small(method, memory=20)
    weighed.learn(X, Y, weights=[2.0] + [1.0] * 10 + [0.0], store=False)
    rows = [0, *range(11)]
    repeated.learn(X[rows], [Y[i] for i in rows], store=False)
    np.testing.assert_allclose(weighed.scores(X), repeated.scores(X), atol=1e-6)


@pytest.mark.parametrize("method", FITTING)
def test_weights_have_a_part_in_every_method_that_takes_them(method):
    plain, alike, weighed = (small(method) for _ in range(3))
    for _ in range(3):
        plain.learn(X, Y)
        alike.learn(X, Y, weights=np.ones(12))
        weighed.learn(X, Y, weights=W)
    assert alike.fingerprint() == plain.fingerprint()
    assert weighed.fingerprint() != plain.fingerprint()
    if method not in ("auto", "ranpac"):  # a regression that can meet every row meets it anyway
        assert not np.allclose(weighed.scores(X), plain.scores(X), atol=1e-4)
    doubled = small(method)
    for _ in range(3):
        doubled.learn(X, Y, weights=2 * W)
    np.testing.assert_allclose(doubled.scores(X), weighed.scores(X), atol=1e-5)


def test_some_methods_take_weights_and_some_do_not():
    assert {"er", "mir", "aser", "ocs", "er-ace", "mro", "fine-tune"} <= set(FITTING)
    assert not {"der++", "er-obc", "er-cbl", "pec", "scr", "lwf-lt"} & set(FITTING)


@pytest.mark.parametrize("method", ["der++", "er-obc-las", "scr", "mkd"])
def test_a_method_that_cannot_refuses_and_stays(method):
    learner = small(method)
    learner.learn(X, Y)
    before = learner.fingerprint()
    with pytest.raises(EvenstreamError, match="cannot weight rows"):
        learner.learn(X, Y, weights=W)
    learner.learn(X, Y, weights=np.ones(12))
    assert learner.fingerprint() != before


@pytest.mark.parametrize(
    "weights", [[1, 2], [1] * 11 + [-1], [1] * 11 + [float("nan")], ["a"] * 12, 3, [[2]] * 12]
)
def test_bad_weights_are_refused(weights):
    learner = small()
    learner.learn(X, Y)
    before = learner.fingerprint()
    with pytest.raises(EvenstreamError, match="weights"):
        learner.learn(X, Y, weights=weights)
    assert learner.fingerprint() == before


def test_replay_uses_the_stored_weight_and_1_for_rows_without_one():
    learner = small(replay_batch=100)
    learner.learn(X[:3], Y[:3])
    learner.learn(X[3:6], Y[3:6], weights=[0.5, 2, 4])
    learner.learn(X[6:9], Y[6:9])
    assert learner.memory.field(WEIGHT).tolist() == [1, 1, 1, 0.5, 2, 4, 1, 1, 1]
    seen = torch.cat([learner.memory.field("x"), torch.tensor(X[9:])])
    labels = torch.cat([learner.memory.field("y"), torch.tensor(Y[9:])])
    weights = torch.cat([learner.memory.field(WEIGHT), torch.ones(3)])
    losses = F.cross_entropy(torch.from_numpy(learner.scores(seen)), labels, reduction="none")
    loss = learner.learn(X[9:], Y[9:]).loss
    assert loss == pytest.approx(float((weights * losses).sum() / weights.sum()), rel=1e-5)


def test_weights_of_zero_only_change_nothing():
    learner = small("fine-tune")
    learner.learn(X, Y)
    before = torch.from_numpy(learner.scores(X))
    assert learner.learn(X, Y, weights=np.zeros(12)).loss == 0
    assert torch.equal(torch.from_numpy(learner.scores(X)), before)


@pytest.mark.parametrize("accumulate", [1, 8])
def test_a_saved_learner_goes_on_with_the_weights(tmp_path, accumulate):
    learner = small("er-las", accumulate=accumulate)
    for part in (slice(0, 5), slice(5, 10)):
        learner.learn(X[part], Y[part], weights=W[part])
    learner.learn(X[:2], Y[:2])
    learner.learn(X[2:4], Y[2:4], weights=W[:2])
    learner.save(tmp_path)
    again = Learner.load(tmp_path)
    for one in (learner, again):
        one.learn(X, Y, weights=W)
        one.learn(X, Y)
    assert again.fingerprint() == learner.fingerprint()
