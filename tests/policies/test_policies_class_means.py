"""Nearest class mean: predictions by what the memory holds."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import Learner
from evenstream.augment import Preprocess
from evenstream.composition import compose, read_rule
from evenstream.core import outputs
from evenstream.core.classifier import evaluation_mode
from evenstream.core.memory import Memory
from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.errors import InputError
from evenstream.methods import METHODS
from evenstream.policies.rules.from_memory import NearestClassMean
from evenstream.testing import CHECKS, feed, make_learner, toy_stream


class Identity:
    """A network whose features are its inputs."""

    def __init__(self, size):
        self.head = torch.nn.Linear(size, 1)

    def features(self, x):
        return x


def stored(x, y):
    """A model whose memory holds these rows."""
    x = torch.as_tensor(x, dtype=torch.float32)
    memory = Memory(len(x))
    memory.put(torch.arange(len(x)), {"x": x, "y": torch.as_tensor(y)})
    return InferenceContext(Identity(x.shape[1]), memory, Preprocess())


def scores(model, query, classes, rule=None):
    rule, query = rule or NearestClassMean(), torch.as_tensor(query, dtype=torch.float32)
    outputs = Outputs(query, query, torch.zeros(len(query), classes))
    return rule.scores(outputs, rule.prepare(model))


def test_worked_example():
    model = stored([[1, 0], [0.6, 0.8], [0, 1], [-0.8, 0.6]], [0, 0, 1, 1])
    classes, sums = NearestClassMean().prepare(model)
    means = F.normalize(sums, dim=1)
    expected = torch.tensor([[0.894427, 0.447214], [-0.447214, 0.894427]])
    torch.testing.assert_close(means, expected, rtol=0, atol=1e-6)
    query = torch.tensor([[1.0, 2.0]]) / 5**0.5
    distances = (query - means).square().sum(1)
    torch.testing.assert_close(distances, torch.tensor([0.4, 0.8]), rtol=0, atol=1e-6)
    found = scores(model, query, 2)
    torch.testing.assert_close(found, 10 * (1 - distances / 2)[None], rtol=0, atol=1e-5)
    assert classes.tolist() == [0, 1] and found.argmax(1).tolist() == [0]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40), st.integers(1, 7))
def test_nearest_in_distance_by_a_loop(seed, classes, rows, batch):
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=(rows, 3)), draw.integers(0, classes, rows)
    queries = draw.normal(size=(5, 3))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "PREDICT_BATCH", batch)
        found = scores(stored(x, y), queries, classes)
    for query, row in zip(queries, found, strict=True):
        query = query / np.linalg.norm(query)
        for label in range(classes):
            if label not in y:
                assert row[label] == -np.inf
                continue
            mean = unit[y == label].mean(0)
            distance = np.square(query - mean / np.linalg.norm(mean)).sum()
            assert float(row[label]) == pytest.approx(10 * (1 - distance / 2), abs=1e-4)


def test_a_class_without_stored_samples_is_never_predicted():
    found = scores(stored([[1, 0], [0, 1]], [0, 2]), [[1, 0], [0, 1], [1, 1]], 4)
    assert found[:, [1, 3]].isneginf().all() and found[:, [0, 2]].isfinite().all()
    probabilities = found.softmax(1)
    assert probabilities.isfinite().all() and probabilities[:, [1, 3]].eq(0).all()


def test_the_scale_matters_to_probabilities_only():
    model, query = stored([[1, 0], [0, 1]], [0, 1]), [[1.0, 0.5], [0.2, 0.9]]
    flat, sharp = (scores(model, query, 2, NearestClassMean(scale)) for scale in (1.0, 100.0))
    assert torch.equal(flat.argmax(1), sharp.argmax(1))
    assert (sharp.softmax(1).amax(1) > flat.softmax(1).amax(1)).all()
    for scale in ("-1", "x"):
        with pytest.raises(InputError):
            read_rule(f"ncm:scale={scale}")


def test_an_empty_memory_leaves_it_to_the_logits():
    logits = torch.tensor([[1.0, 3.0, 2.0]])
    rule = NearestClassMean()
    empty = InferenceContext(Identity(2), Memory(4), Preprocess())
    assert rule.prepare(empty) is None
    assert torch.equal(rule.scores(Outputs(logits, logits, logits), None), logits)


# In a learner.


@pytest.mark.parametrize("method", ["er-las@ncm", "er:head=cosine@ncm:scale=3"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_promises_of_methods_hold_with_the_rule(check, method):
    check(method)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_takes_it_or_says_why_not(name):
    try:
        learner = feed(make_learner(f"{name}@ncm"), toy_stream())
    except InputError as error:
        assert "makes no sense" in str(error) or not METHODS[name].uses_memory
        return
    probabilities = learner.predict_proba(toy_stream()[0][0])
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert compose(f"{name}@ncm").text == (name if name == "scr" else f"{name}@ncm")


def test_means_are_of_plain_images_in_eval_mode():
    draw = np.random.default_rng(0)
    x = draw.integers(0, 256, (12, 3, 8, 8)).astype(np.uint8)
    learner = Learner("er@ncm", "convnet", memory=12, augment="crop2+flip", dtype="float32")
    for _ in range(3):
        learner.learn(x, [0, 1, 2] * 4)
    memory, network = learner.memory, learner.network
    with evaluation_mode(network):
        features = F.normalize(network.features(learner.preprocess.plain(memory.field("x"))), dim=1)
        queries = F.normalize(
            network.features(learner.preprocess.plain(torch.from_numpy(x))), dim=1
        )
    means = torch.stack([features[memory.field("y") == label].mean(0) for label in range(3)])
    expected = torch.cdist(queries, F.normalize(means, dim=1)).argmin(1)
    assert learner.predict(x).tolist() == [learner.labels[index] for index in expected]


def test_the_memory_is_read_once_a_call(monkeypatch):
    calls, prepare = [], NearestClassMean.prepare
    monkeypatch.setattr(
        NearestClassMean, "prepare", lambda self, model: calls.append(1) or prepare(self, model)
    )
    learner = feed(make_learner("er@ncm"), toy_stream(4))
    assert not calls  # too dear to measure each incoming batch
    learner.predict(np.zeros((600, 6), np.float32))
    assert len(calls) == 1


def test_priors_cannot_be_added_to_distances():
    learner = feed(make_learner("er-las@ncm"), toy_stream(4))
    with pytest.raises(InputError, match=r'rule ncm; .*method="er-las".*costs='):
        learner.predict(toy_stream()[0][0], priors={"bolt": 1.0})
