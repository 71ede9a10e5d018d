"""Deployment priors: the Bayes decision for known class frequencies."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Learner
from evenstream.errors import InputError
from evenstream.policies.rules import Contest
from tests.helpers.small_streams import blobs, class_stream, feed, small

GIVEN = {"common": (0.7, 0.2, 0.1), "rare": (0.1, 0.3, 0.6)}  # P(x | class)
STATES = np.eye(3, dtype=np.float32)


def population():
    """1000 rows, 9 of 10 common: the spec's closed-form example."""
    states, labels = [], []
    for label, count in (("common", 900), ("rare", 100)):
        for state, p in enumerate(GIVEN[label]):
            states += [state] * round(count * p)
            labels += [label] * round(count * p)
    return STATES[states], labels


@pytest.fixture(scope="module")
def trained():
    torch.set_num_threads(1)
    learner = small("fine-tune-las", nn.Flatten(), lr=2.0)
    x, labels = population()
    for _ in range(400):
        learner.learn(x, labels)
    return learner


@pytest.mark.parametrize("rare", [0.01, 0.1, 0.3, 0.5, 0.75, 0.95])
def test_bayes_decision(trained, rare):
    priors = {"common": 1 - rare, "rare": rare}
    joint = np.array([[priors[c] * GIVEN[c][state] for c in priors] for state in range(3)])
    posterior = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(trained.predict_proba(STATES, priors), posterior, atol=2e-3)
    expected = [("common", "rare")[i] for i in joint.argmax(1)]
    assert trained.predict(STATES, priors).tolist() == expected


def test_without_priors_classes_are_equal(trained):
    even = trained.predict_proba(STATES, {"common": 0.5, "rare": 0.5})
    np.testing.assert_allclose(trained.predict_proba(STATES), even, atol=1e-6)
    assert trained.predict(STATES).tolist() == ["common", "rare", "rare"]


@pytest.mark.parametrize("scale", [1e308, 5e-324, 1e-300])
def test_the_largest_and_smallest_numbers_are_priors(trained, scale):
    expected = trained.predict_proba(STATES, {"common": 1, "rare": 1})
    found = trained.predict_proba(STATES, {"common": scale, "rare": scale})
    np.testing.assert_allclose(found, expected, atol=1e-6)
    certain = trained.predict_proba(STATES, {"common": 1e-300, "rare": 1e308})
    np.testing.assert_allclose(certain, [[0, 1]] * 3, atol=1e-6)


def test_only_ratios_count_and_what_has_none_is_impossible(trained):
    one = trained.predict_proba(STATES, {"common": 90, "rare": np.float32(10)})
    two = trained.predict_proba(STATES, {"rare": torch.tensor(0.1), "common": 0.9})
    np.testing.assert_allclose(one, two, atol=1e-6)
    certain = trained.predict_proba(STATES, {"rare": 1, "common": 0})
    np.testing.assert_allclose(certain, [[0, 1]] * 3)


def test_a_class_left_out_is_named(trained):
    for call in (trained.predict, trained.predict_proba, trained.predict_indices):
        with pytest.raises(InputError, match="leave out 'common'; give every class a number"):
            call(STATES, {"rare": 0.9})


@pytest.mark.parametrize("method", ["er-las", "er-las:window=5", "joint-las:prior=exponential"])
def test_methods_whose_logits_are_free_of_priors(method):
    learner = feed(small(method), class_stream())
    priors = dict.fromkeys(learner.labels, 0.0) | {"class 0": 0.9, "class 3": 0.1}
    assert len(learner.predict(blobs(3)[0], priors)) == 3


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("er", "plain cross-entropy"),
        ("fine-tune", "use a -las method"),
        ("er-las:tau=0", "tau=0"),
        ("er-las:tau=2", "tau=2"),
        ("er-las:tau=inf", "tau=inf"),
        ("er-las:prior=random", "random"),
        ("ranpac", "regression leans to the classes that are frequent"),
        ("slda:priors=counted", "priors=counted its scores contain"),
    ],
)
def test_others_are_refused_with_the_reason(method, reason):
    learner = feed(small(method), class_stream())
    before = learner.fingerprint()
    for call in (learner.predict, learner.predict_proba, learner.predict_indices):
        with pytest.raises(InputError, match=reason):
            call(blobs(3)[0], {"class 0": 1.0})
    assert learner.fingerprint() == before


@pytest.mark.parametrize(
    "priors",
    [
        {"class 0": -0.1, "class 1": 1.1},
        {"class 0": math.nan},
        {"class 0": math.inf},
        {"class 0": 0.0},
        {},
        {"class 0": "much"},
        {"class 0": None},
        {"nobody": 1.0},
        {0.5: 1.0},
        ["class 0"],
        0.5,
    ],
)
def test_bad_priors_are_refused(priors):
    learner = feed(small("er-las"), class_stream())
    with pytest.raises(InputError, match=r"priors|label"):
        learner.predict(blobs(3)[0], priors)


def test_priors_tell_true_and_one_apart():
    learner = small("er-las", memory=0)
    x, _ = blobs(4)
    learner.learn(x, [True, 1, True, 1])
    assert learner.predict(x, {1: 1.0}).tolist() == [1] * 4
    assert all(label is True for label in learner.predict(x, {True: 1.0}))


# ---- closed forms --------------------------------------------------------------------------------


def two_clouds(counts, seed=0):
    """Two normal classes of ten columns, three deviations apart."""
    draw = np.random.default_rng(seed)
    y = draw.permutation(np.repeat([0, 1], counts))
    x = draw.normal(size=(len(y), 10))
    x[:, 0] += 3 * y
    return x.astype(np.float32), y


@pytest.fixture(
    scope="module", params=["slda", "class-means", "randumb:width=50,gamma=0.1", "auto"]
)
def uneven(request):
    """A learner that has seen 19 rows of one class for each of the other."""
    learner = Learner(request.param, seed=0, **({} if request.param != "auto" else {"memory": 100}))
    x, y = two_clouds((950, 50))
    for start in range(0, len(x), 50):
        learner.learn(x[start : start + 50], y[start : start + 50])
    return learner


@pytest.mark.parametrize("rare", [0.05, 0.5, 0.9])
def test_closed_forms_answer_for_the_frequencies_that_are_given(uneven, rare):
    number = round(1000 * rare)
    x, y = two_clouds((1000 - number, number), seed=1)
    answers = uneven.predict(x, priors={0: 1 - rare, 1: rare})
    assert abs((answers == 1).mean() - rare) < 0.1
    assert (answers == y).mean() >= (uneven.predict(x) == y).mean() - 0.02


def test_auto_asks_the_best_of_those_that_are_free_of_frequencies():
    """For er@contest that is slda: the network's logits contain frequencies, as ranpac's scores."""
    x, y = two_clouds((60, 60))
    for method, best, free in (
        ("auto", "ranpac", "slda"),
        ("auto", "network", "network"),
        ("er@contest", "network", "slda"),
    ):
        learner = Learner(method, seed=0, memory=50)
        learner.learn(x, y)
        rule = learner.composition.rule
        assert isinstance(rule, Contest)
        for name in (*rule.forms, "network"):
            counts = torch.tensor([[10.0], [8.0 if name == best else 4.0]])
            rule.tensors |= {name: counts, f"replayed {name}": counts}
        assert rule.best() == best
        found = learner.predict_proba(x, {0: 0.5, 1: 0.5})
        if free == "network":
            expected = learner.predict_proba(x)
        else:
            alone = Learner("slda", seed=0)
            alone.learn(x, y)
            expected = alone.predict_proba(x)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert not np.allclose(found, learner.predict_proba(x)) or free == best
        learner.snapshot()  # which keeps what it has prepared
        np.testing.assert_allclose(learner.predict_proba(x, {0: 0.5, 1: 0.5}), found, atol=1e-6)
