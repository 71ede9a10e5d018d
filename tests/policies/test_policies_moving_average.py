"""The rule `ema`: its warm-up, and the mean of network and average."""

import pytest
import torch

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.outputs import plain_outputs
from evenstream.errors import InputError
from evenstream.policies.rules import MovingAverage
from tests.helpers.small_streams import (
    Noisy,
    blobs,
    class_stream,
    feed,
    parameters,
    refused,
    same,
    small,
)

X = blobs(9, classes=4)[0]


def averaged(learner):
    return learner.composition.rule.modules["average"].state_dict()


@pytest.mark.parametrize("steps", [1, 2])
def test_the_warmup_keeps_less_at_first(steps):
    """Against the recurrence, written out: a_t = k_t·a_{t-1} + (1 - k_t)·w_t, by update."""
    learner = small("er@ema:decay=0.3,warmup=true", steps=steps)
    weights, after = [], learner.composition.rule.after_step

    def watched(step):
        weights.append({n: v.clone() for n, v in step.network.state_dict().items()})
        after(step)

    learner.composition.rule.after_step = watched
    feed(learner, [blobs(6, classes=2, seed=seed) for seed in range(8)])
    wanted = weights[0]
    for t, now in enumerate(weights[1:], start=1):
        kept = min(0.3, (1 + t) / (10 + t))
        wanted = {n: kept * wanted[n] + (1 - kept) * now[n] for n in now}
    assert len(weights) == 8 * steps
    for name, value in averaged(learner).items():
        torch.testing.assert_close(value, wanted[name])


def test_the_warmup_resumes_exactly_and_is_undone():
    stream = class_stream(12)
    learner = feed(small("er-las@ema:decay=0.9,warmup=true", Noisy()), stream[:5])
    resumed = Learner.from_state(learner.state(), Noisy())
    x = blobs(4)[0]
    refused(learner, lambda: learner.learn(x * float("nan"), ["new"] * 4))
    feed(learner, stream[5:])
    assert feed(resumed, stream[5:]).fingerprint() == learner.fingerprint()


def test_the_average_without_the_new_options_is_as_before():
    one, two = (feed(small(m), class_stream(8)) for m in ("er@ema", "er@ema:mix=0.5,warmup=true"))
    assert same(parameters(one), parameters(two))
    assert not one.composition.rule.tensors


@pytest.mark.parametrize("mix", [0.25, 0.5, 1.0])
def test_the_mean_of_network_and_average(mix):
    learner = feed(small(f"er@ema:decay=0.9,mix={mix}"), class_stream(10))
    rule, raw = learner.composition.rule, torch.from_numpy(X)
    network = plain_outputs(learner, raw)[1]
    average = rule.modules["average"](raw)
    found = torch.from_numpy(learner.scores(X))
    torch.testing.assert_close(found, (1 - mix) * average + mix * network)
    # the mean of log-softmax gives the same probabilities
    means = (1 - mix) * average.log_softmax(1) + mix * network.log_softmax(1)
    torch.testing.assert_close(torch.from_numpy(learner.predict_proba(X)), means.softmax(1))
    rule.mean = "probabilities"  # type: ignore[attr-defined]
    means = (1 - mix) * average.softmax(1) + mix * network.softmax(1)
    torch.testing.assert_close(torch.from_numpy(learner.predict_proba(X)), means)


def test_the_network_is_not_asked_for_the_average_alone():
    learner = feed(small("er@ema", Noisy()), class_stream(6))
    asked = []
    learner.network.backbone.register_forward_hook(lambda *_: asked.append(1))
    learner.predict(X)
    assert not asked
    learner.composition.rule.mix = 0.5  # type: ignore[attr-defined]
    learner.predict(X)
    assert asked == [1]


def test_the_options_are_written_and_bounded():
    spec = "er-las@ema:decay=0.9975,warmup=true,mix=0.5,mean=probabilities"
    assert compose(spec).text == spec
    assert compose("er@ema:mix=0,warmup=false").text == "er@ema"
    with pytest.raises(InputError, match="mix must lie"):
        MovingAverage(mix=1.5)


@pytest.mark.parametrize("steps", [1, 2])
def test_accuracy_may_be_measured_in_some_batches_only(steps):
    stream = class_stream(9)
    every, third = (small(f"er@ema{text}", steps=steps) for text in ("", ":measure_every=3"))
    known, found = ([one.learn(*batch).accuracy for batch in stream] for one in (every, third))
    assert found == [known[n] if n % 3 == 2 else None for n in range(9)]
    assert same(parameters(every), parameters(third))
    assert every.passes.count == third.passes.count
    assert 0 < third.passes.aside < every.passes.aside
