"""ER-WN: the weights of the head are normalised."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream.composition import compose
from tests.helpers.method_samples import linear
from tests.helpers.small_streams import blobs, class_stream, feed, parameters, same, small


def scores_of(rule, network, features):
    features = torch.tensor(features)
    outputs = SimpleNamespace(features=features, logits=network.logits(features))
    return rule.scores(outputs, rule.prepare(SimpleNamespace(network=network))).detach()


@pytest.mark.parametrize(
    ("power", "expected"), [(1, [1.4, 1, 1]), (0.5, [3.1305, 1, 1.4142]), (0, [7.0, 1, 2])]
)
def test_er_wn_worked_numbers(power, expected):
    rule = compose(f"er-wn:power={power}").rule
    scores = scores_of(rule, linear([[3, 4], [1, 0], [0, 2]]), [[1.0, 1]])
    torch.testing.assert_close(scores, torch.tensor([expected]), rtol=0, atol=1e-4)


def test_er_wn_takes_a_weight_of_length_zero():
    scores = scores_of(compose("er-wn").rule, linear([[0, 0], [1, 0]]), [[2.0, 1]])
    assert scores.tolist() == [[0, 2]]


def test_er_wn_trains_as_er_and_is_er_without_normalisation():
    plain, normalised = (feed(small(m), class_stream(8)) for m in ("er", "er-wn"))
    assert same(parameters(plain), parameters(normalised))
    same_rule = feed(small("er-wn:power=0,keep_bias=true"), class_stream(8))
    x = class_stream(9)[-1][0]
    np.testing.assert_allclose(same_rule.predict_proba(x), plain.predict_proba(x), rtol=1e-5)


def test_er_wn_is_blind_to_the_lengths_of_weights():
    learner = feed(small("er-wn"), class_stream(8))
    x = class_stream(9)[-1][0]
    answer = learner.predict_proba(x)
    with torch.no_grad():
        learner.network.head.weight.mul_(torch.tensor([[3.0], [0.1], [20], [1]]))
        learner.network.head.bias.fill_(7)
    np.testing.assert_allclose(learner.predict_proba(x), answer, rtol=1e-5)


def test_er_wn_can_normalise_in_training():
    learner = small("er-wn:when=train", nn.Flatten(), lr=0.0, replay_batch=0)
    x, y = blobs(6)
    learner.learn(x, y)
    head = learner.network.head
    index = torch.tensor([learner.labels.index(label) for label in y])
    expected = F.cross_entropy(torch.from_numpy(x) @ F.normalize(head.weight, dim=1).T, index)
    assert learner.learn(x, y).loss == pytest.approx(float(expected.detach()), rel=1e-5)
    trained = feed(small("er-wn:when=train"), class_stream(8))
    assert not same(parameters(trained), parameters(feed(small("er"), class_stream(8))))
    idle = small("er-wn:when=train", lr=0.0)
    idle.learn(*class_stream(1)[0])
    bias = parameters(idle)["head.bias"]
    assert torch.equal(parameters(trained)["head.bias"][:2], bias)  # it has no part in the loss
