"""The cosine head is an option of every method, of those that look into the head, too."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.classifier import Classifier
from evenstream.core.heads import Cosine, CosineHead, cosines
from evenstream.errors import InputError
from evenstream.methods import METHODS
from evenstream.methods.er_cba import Adaptor, outer_loss
from evenstream.methods.parts.per_sample import full_gradients, head_gradients
from evenstream.testing import (
    Backbone,
    check_batchnorm_is_left_alone,
    feed,
    make_learner,
    toy_stream,
)

REFUSED = {"er-wn": "no class wins by a longer weight"}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_trains_and_resumes_or_says_why_not(name):
    method = f"{name}:head=cosine,head_scale=9.0,head_scale_learned=false"
    stream = toy_stream()
    if name in REFUSED:
        with pytest.raises(InputError, match=REFUSED[name]):
            feed(make_learner(method), stream)
        return
    whole = feed(make_learner(method), stream[:7])
    part = Learner.from_state(whole.state(), Backbone())
    feed(whole, stream[7:])
    assert isinstance(whole.network.head, CosineHead) and whole.network.head.scale == 9.0
    assert whole.predict_proba(stream[0][0]).shape == (6, 4)
    assert feed(part, stream[7:]).fingerprint() == whole.fingerprint()


@pytest.mark.parametrize(
    "name", ["er-obc:surrogate_head=true", "ocs:gradients=full", "er-cba:period=2"]
)
def test_options_that_look_into_the_head(name):
    check_batchnorm_is_left_alone(f"{name},head=cosine")


def test_a_learned_scale_learns_and_a_fixed_one_does_not():
    for learned in (False, True):
        learner = make_learner(f"er:head=cosine,head_scale_learned={str(learned).lower()}")
        feed(learner, toy_stream())
        assert (learner.network.head.scale != 10.0) == learned


def test_the_surrogate_head_of_er_obc_is_of_the_same_kind():
    learner = feed(make_learner("er-obc:surrogate_head=true,head=cosine"), toy_stream())
    assert isinstance(learner.method.modules["surrogate"], CosineHead)


def test_per_sample_gradients_of_a_cosine_head():
    torch.manual_seed(0)
    head = CosineHead(4, seed=0, size=3, scale=7.0, learned=False)
    network = Classifier(nn.Linear(3, 4), head, torch.float32).eval()
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    (found, _), (full, _) = head_gradients(network, x, y), full_gradients(network, x, y)
    for row in range(5):
        loss = F.cross_entropy(network(x[row : row + 1]), y[row : row + 1])
        (expected,) = torch.autograd.grad(loss, head.weight)
        torch.testing.assert_close(found[row], expected.flatten())
        torch.testing.assert_close(full[row, -15:-3], expected.flatten())


def test_ocs_head_gradients_are_those_of_the_seen_classes():
    head = CosineHead(4, seed=0, size=6, scale=7.0, learned=False)
    network = Classifier(nn.Identity(), head, torch.float32).eval()
    network.width = 3
    x, y = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), torch.arange(5) % 3
    assert head_gradients(network, x, y)[0].shape == (5, 3 * 4)


def test_er_cba_looks_ahead_through_the_cosine_head():
    draw = torch.Generator().manual_seed(3)
    weight = torch.randn(3, 4, generator=draw)
    inner, outer = ((torch.randn(6, 4, generator=draw), torch.arange(6) % 3) for _ in range(2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        adaptor = Adaptor(4, 5)
    head = Cosine(5.0).build(4, 0, 3)
    loss = outer_loss(weight, torch.zeros(3), adaptor, [inner], outer, 0.1, head.logits)
    moved = weight.clone().requires_grad_()
    logits = 5 * cosines(inner[0], moved)
    (step,) = torch.autograd.grad(F.cross_entropy(logits + adaptor(logits), inner[1]), moved)
    expected = F.cross_entropy(5 * cosines(outer[0], weight - 0.1 * step), outer[1])
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert adaptor.outer.weight.grad.abs().sum() > 0


def test_the_head_is_a_part_of_the_name():
    assert compose("er-las:head=cosine").text == "er-las:head=cosine"
    assert compose("er-ace:head=cosine,mask=reference").text == "er-ace:mask=reference,head=cosine"
    with pytest.raises(InputError, match="option of head=cosine"):
        compose("er:head_scale=3")
