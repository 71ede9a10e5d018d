"""Inference rules by themselves: from features and logits to scores."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenstream.composition import compose
from evenstream.core.heads import CosineHead
from evenstream.errors import EvenstreamError
from evenstream.learner.learner import Learner
from evenstream.policies.rules import ArgMax, NormalisedWeights, Outputs, PostHocCorrection
from evenstream.testing import Backbone, feed, make_learner, toy_stream

LOGITS = torch.tensor([[2.0, 1, 0.5], [0, 0, 0]])
FEATURES = torch.tensor([[1.0, 1], [0, 0]])
WEIGHT = torch.tensor([[3.0, 4], [1, 0], [0, 0]])
MODEL = SimpleNamespace(
    network=SimpleNamespace(head=SimpleNamespace(weight=WEIGHT, bias=torch.tensor([9.0, 0, 1])))
)


def scores(rule):
    return rule.scores(Outputs(FEATURES, FEATURES, LOGITS), rule.prepare(MODEL))


def post_hoc(tau, counts):
    rule = PostHocCorrection(tau)
    rule.tensors[rule.COUNTS] = torch.as_tensor(counts).double()
    return rule


def test_post_hoc_correction_by_hand():
    expected = LOGITS - torch.tensor([0.6, 0.3, 0.1]).log()
    torch.testing.assert_close(scores(post_hoc(1.0, [6, 3, 1])), expected)
    assert torch.equal(scores(post_hoc(0.0, [6, 3, 1])), scores(ArgMax()))


def test_post_hoc_correction_counts_what_was_trained_on_lately():
    rule = PostHocCorrection(decay=0.5)
    for labels, expected in (([0, 0, 1], [2, 1]), ([2, 0], [2, 0.5, 1])):
        told = Mock(return_value=torch.tensor(labels))
        rule.after_step(Mock(labels=told, n_classes=len(expected)))
        assert rule.tensors[rule.COUNTS].tolist() == expected


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=3), st.integers(2, 1000))
def test_post_hoc_correction_depends_on_ratios_only(counts, factor):
    one, two = post_hoc(2.0, counts), post_hoc(2.0, [factor * count for count in counts])
    torch.testing.assert_close(scores(one).softmax(1), scores(two).softmax(1))


def test_a_class_without_a_row_has_a_finite_score():
    found = scores(post_hoc(1.0, [5.0, 0, 1e-30]))
    assert found.isfinite().all() and found[1, 1] == found[1, 2] > found[1, 0]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (NormalisedWeights(), [[1.4, 1, 0], [0, 0, 0]]),
        (NormalisedWeights(keep_bias=True), [[10.4, 1, 1], [9, 0, 1]]),
        (NormalisedWeights(power=0.0), [[7.0, 1, 0], [0, 0, 0]]),
    ],
)
def test_rules_that_ignore_lengths(rule, expected):
    torch.testing.assert_close(scores(rule), torch.tensor(expected))


@pytest.mark.parametrize(("scale", "expected"), [(10.0, 9.89949), (1.0, 0.989949)])
def test_cosine_head_by_hand(scale, expected):
    head = CosineHead(2, seed=0, scale=scale, learned=False)
    found = head.logits(FEATURES, WEIGHT, torch.tensor([9.0, 0, 1]))
    wanted = [[expected, scale * 0.707107, 0], [0, 0, 0]]
    torch.testing.assert_close(found, torch.tensor(wanted))


# ---- by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "normal"),
    [
        ("er@argmax", "er"),
        ("er@post-hoc", "er@post-hoc"),
        ("er-las:tau=2@ema:decay=0.5", "er-las:tau=2.0@ema:decay=0.5"),
        ("er-posthoc@post-hoc", "er-posthoc"),
        (
            "der++:head=cosine@post-hoc:tau=2.0",
            "der++:head=cosine@post-hoc:tau=2.0",
        ),
        ("las@ema", "fine-tune-las@ema"),
    ],
)
def test_a_rule_is_a_part_of_the_methods_name(spec, normal):
    assert compose(spec).text == normal == compose(normal).text


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("er@posthoc", "post-hoc"),
        ("er@", "inference rule"),
        ("er@post-hoc:tau=-1", "tau must lie in 0..inf"),
        ("er@post-hoc:beta=1", "it has: tau, decay"),
        ("er:head=cosine,head_scale=0", "above 0"),
        ("er:head_scale=5", "head=cosine"),
        ("er:head=round", "linear, cosine"),
    ],
)
def test_bad_rules_and_heads_are_refused(spec, message):
    with pytest.raises(EvenstreamError, match=message):
        compose(spec)


def test_er_posthoc_is_er_with_the_rule(tmp_path):
    one, two = (feed(make_learner(m), toy_stream()) for m in ("er-posthoc", "er@post-hoc"))
    x = toy_stream()[0][0]
    assert np.array_equal(one.scores(x), two.scores(x))
    assert not np.array_equal(one.scores(x), feed(make_learner("er"), toy_stream()).scores(x))
    two.save(tmp_path)
    assert Learner.load(tmp_path, model=Backbone()).fingerprint() == two.fingerprint()
