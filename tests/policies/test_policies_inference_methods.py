"""Inference rules on methods: averaged weights, and which combinations make sense."""

import numpy as np
import pytest
import torch

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.heads import Cosine, GrowingHead
from evenstream.errors import InputError
from evenstream.methods import ER
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.rules import PostHocCorrection
from evenstream.testing import feed, make_learner, toy_stream, toy_task
from tests.helpers.small_streams import Noisy, blobs, class_stream, parameters, same, small
from tests.helpers.small_streams import feed as feed_small

X = blobs(9, seed=8)[0]


def averages_by_hand(decay, stream):
    """The averaged state after each step of er-las, from the states of the network."""
    learner, average, found = small("er-las", Noisy()), None, []
    for x, labels in stream:
        learner.learn(x, labels)
        now = parameters(learner)
        if average is None:
            average = now
        else:
            drawn = GrowingHead(7, seed=0, size=len(learner.labels)).state_dict()
            old = dict(average)
            for name in ("weight", "bias"):
                rows = old[f"head.{name}"]
                old[f"head.{name}"] = torch.cat([rows, drawn[name][len(rows) :]])
            average = {
                name: decay * old[name] + (1 - decay) * value
                if value.is_floating_point()
                else value
                for name, value in now.items()
            }
        found.append(average)
    return found


@pytest.mark.parametrize("decay", [0.99, 0.6])
def test_ema_averages_weights_and_statistics_while_the_head_grows(decay):
    stream = class_stream(10, classes=6)
    learner = small(f"er-las@ema:decay={decay}", Noisy())
    for batch, expected in zip(stream, averages_by_hand(decay, stream), strict=True):
        learner.learn(*batch)
        average = learner.composition.rule.modules["average"]
        torch.testing.assert_close(dict(average.state_dict()), expected)
    assert len(learner.labels) == 6
    assert not any(p.requires_grad for p in average.parameters())


def test_ema_predicts_by_the_average_and_leaves_training_alone():
    plain, averaged = (feed_small(small(m, Noisy()), class_stream(10)) for m in ("er", "er@ema"))
    assert same(parameters(plain), parameters(averaged))
    average = averaged.composition.rule.modules["average"]
    before = {name: value.clone() for name, value in average.state_dict().items()}
    with torch.no_grad():
        expected = average(torch.from_numpy(X))
    assert torch.equal(torch.from_numpy(averaged.scores(X)), expected)
    assert not np.array_equal(averaged.scores(X), plain.scores(X))
    assert same(dict(average.state_dict()), before)


def test_ema_without_decay_is_argmax():
    plain, averaged = (feed_small(small(m), class_stream(10)) for m in ("er", "er@ema:decay=0"))
    assert np.array_equal(plain.scores(X), averaged.scores(X))


def test_ema_measures_each_batch_with_the_classes_known_before():
    learner = small("er@ema", Noisy())
    for x, labels in class_stream(8, classes=4):
        guess = learner.predict(x)
        right = sum(a == b for a, b in zip(guess, labels, strict=True)) / len(labels)
        result = learner.learn(x, labels)
        assert result.accuracy == pytest.approx(right)


@pytest.mark.parametrize("rule", ["ema", "ema:decay=0.5", "post-hoc", "normalised"])
@pytest.mark.parametrize("method", ["fine-tune", "er", "der++", "mir", "clib", "ss-il", "er-ace"])
def test_rules_work_on_any_method(method, rule):
    learner = feed(make_learner(f"{method}@{rule}"), toy_stream(6))
    x = toy_stream()[0][0]
    twin = Learner.from_state(learner.state(), model=learner.model)
    assert learner.predict_proba(x).shape == (6, len(learner.labels))
    assert np.array_equal(twin.scores(x), learner.scores(x))


@pytest.mark.parametrize("rule", ["ema", "post-hoc", "normalised"])
def test_rules_meet_classes_that_no_step_has_trained_yet(rule):
    learner = feed(make_learner(f"ewc@{rule}"), toy_stream(6)[:3])
    learner.end_task(toy_task(learner, 0))
    learner.start_task(data=toy_task(learner, 1))
    x = toy_stream()[0][0]
    found = learner.predict_proba(x)
    assert found.shape == (6, 4) and abs(found.sum(1) - 1).max() < 1e-5
    assert rule != "ema" or not found[:, 2:].any()
    early = make_learner(f"ewc@{rule}")
    assert early.predict_proba(x).shape == (6, 2)


@pytest.mark.parametrize(("own", "rule"), [("er-wn", "normalised"), ("er-posthoc", "post-hoc")])
def test_methods_that_are_er_with_a_rule(own, rule):
    one, two = (feed_small(small(m), class_stream(10)) for m in (own, f"er@{rule}"))
    assert same(parameters(one), parameters(two))
    assert np.array_equal(one.scores(X), two.scores(X))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("er-las@post-hoc", "has taken the class frequencies out in training already"),
        ("der\\+\\+-las:tau=0.5@post-hoc", "favour rare classes"),
        ("er:head=cosine@normalised", "no class wins by a longer weight"),
        ("er-wn:head=cosine", "no class wins by a longer weight"),
        ("er-wn:when=train@argmax", "only the rule normalised can predict"),
        ("pec:schedule=constant@ncm", "the network that the rule ncm uses"),
        ("scr@argmax", "only the rule ncm can predict"),
        ("pcr:head=linear", "contrasts rows with class weights by their cosines"),
        ("lucir-full:head=linear", "needs a cosine head"),
    ],
)
def test_combinations_without_sense_are_refused(spec, reason):
    with pytest.raises(InputError, match=f"{spec}.* makes no sense: .*{reason}"):
        small(spec.replace("\\", ""))


def test_combinations_made_by_hand_are_refused_before_there_is_a_learner():
    with pytest.raises(InputError, match="er-las@post-hoc makes no sense"):
        small(ER(), criterion=LogitAdjustedSoftmax(), predict=PostHocCorrection())


def test_a_head_of_another_kind_begins_with_its_own_defaults():
    own = compose("pcr:head_scale_learned=true").head
    assert own == Cosine(1 / 0.09, scale_learned=True)
    assert compose("er:head=cosine").head == Cosine()


def test_las_of_strength_zero_may_be_corrected_afterwards():
    specs = ("er-las:tau=0@post-hoc", "er@post-hoc")
    one, two = (feed_small(small(m), class_stream(6)) for m in specs)
    assert np.array_equal(one.scores(X), two.scores(X))


def test_priors_can_be_added_to_averaged_logits():
    learner = feed_small(small("er-las@ema"), class_stream(10))
    first = learner.labels[0]
    only = dict.fromkeys(learner.labels, 0) | {first: 1.0}
    assert set(learner.predict(X, priors=only)) == {first}
