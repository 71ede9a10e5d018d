"""Seeds: the same learner again, whatever the program around it draws."""

import warnings

import pytest
import torch
from torch import nn

from evenstream import Learner
from tests.helpers.small_streams import Noisy, blobs, class_stream, feed, parameters, same, small


def test_same_seed_same_learner_other_seed_another():
    stream = class_stream()
    one, two, other = (feed(small(seed=seed), stream) for seed in (0, 0, 1))
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()
    assert not same(parameters(one), parameters(other))


@pytest.mark.parametrize("model", ["mlp", "own"])
def test_the_global_generator_outside_and_the_learner_do_not_meet(model):
    stream = class_stream()

    def make():
        return small("er-las", Noisy() if model == "own" else model)

    torch.manual_seed(1)
    quiet = feed(make(), stream)
    torch.manual_seed(2)
    outside = torch.get_rng_state()
    noisy = make()
    for x, labels in stream:
        noisy.learn(x, labels)
        noisy.predict(x)
        assert torch.equal(torch.get_rng_state(), outside)
        torch.rand(7)
        outside = torch.get_rng_state()
    assert quiet.fingerprint() == noisy.fingerprint()


def test_dropout_draws_from_the_learners_own_generator():
    def run(seed):
        learner = small("er", Noisy(), memory=0)
        own = torch.Generator().manual_seed(seed).get_state()
        learner.randomness.load_state({**learner.randomness.state(), "global": own})
        return parameters(feed(learner, class_stream()))

    assert same(run(1), run(1)) and not same(run(1), run(2))


def test_a_lazy_module_is_initialised_without_touching_the_outside():
    def run(seed):
        torch.manual_seed(seed)
        outside = torch.get_rng_state()
        learner = small("er", nn.Sequential(nn.LazyLinear(6), nn.ReLU()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.learn(*blobs(4))
        assert torch.equal(torch.get_rng_state(), outside)
        return learner

    assert same(parameters(run(1)), parameters(run(2)))


def test_two_learners_side_by_side():
    stream, other = class_stream(), class_stream(seed=5)
    alone = feed(small("er-las", Noisy()), stream)
    one, two = small("er-las", Noisy()), small("er-las", Noisy(), seed=3, momentum=0.9)
    for (x, labels), (x2, labels2) in zip(stream, other, strict=True):
        two.learn(x2, labels2)
        one.learn(x, labels)
        two.predict(x)
    assert one.fingerprint() == alone.fingerprint()


@pytest.mark.parametrize(
    "options", [{"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}], ids=["momentum", "adam"]
)
def test_a_learner_made_from_anothers_state_is_independent(options):
    stream = class_stream()
    first = feed(small(**options), stream[:6])
    twin = Learner.from_state(first.state())
    before = twin.fingerprint()
    assert before == first.fingerprint()
    feed(first, stream[6:])
    assert twin.fingerprint() == before
    feed(twin, stream[6:])
    assert twin.fingerprint() == first.fingerprint()
