"""Inference rules by themselves: from features and logits to scores."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenstream.slots.inference import (
    ArgMax,
    CosineSimilarity,
    NormalisedWeights,
    Outputs,
    PostHocCorrection,
)

LOGITS = torch.tensor([[2.0, 1, 0.5], [0, 0, 0]])
FEATURES = torch.tensor([[1.0, 1], [0, 0]])
WEIGHT = torch.tensor([[3.0, 4], [1, 0], [0, 0]])
MODEL = SimpleNamespace(
    network=SimpleNamespace(head=SimpleNamespace(weight=WEIGHT, bias=torch.tensor([9.0, 0, 1])))
)


def scores(rule):
    return rule.scores(Outputs(FEATURES, FEATURES, LOGITS), rule.prepare(MODEL))


def test_post_hoc_correction_by_hand():
    counts = torch.tensor([6.0, 3, 1])
    expected = LOGITS - torch.tensor([0.6, 0.3, 0.1]).log()
    torch.testing.assert_close(scores(PostHocCorrection(1.0, lambda: counts)), expected)
    assert torch.equal(scores(PostHocCorrection(0.0, lambda: counts)), scores(ArgMax()))


def test_post_hoc_correction_asks_for_the_counts_of_the_moment():
    counts = torch.tensor([8.0, 1, 1])
    rule = PostHocCorrection(1.0, lambda: counts)
    assert scores(rule).argmax(1).tolist() == [1, 1]
    counts = torch.tensor([1.0, 1, 8])
    assert scores(rule).argmax(1).tolist() == [0, 0]


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=3), st.integers(2, 1000))
def test_post_hoc_correction_depends_on_ratios_only(counts, factor):
    one = PostHocCorrection(2.0, lambda: torch.tensor(counts).double())
    two = PostHocCorrection(2.0, lambda: torch.tensor(counts).double() * factor)
    torch.testing.assert_close(scores(one).softmax(1), scores(two).softmax(1))


def test_a_class_without_a_row_has_a_finite_score():
    found = scores(PostHocCorrection(1.0, lambda: torch.tensor([5.0, 0, 1e-30])))
    assert found.isfinite().all() and found[1, 1] == found[1, 2] > found[1, 0]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (NormalisedWeights(), [[1.4, 1, 0], [0, 0, 0]]),
        (NormalisedWeights(keep_bias=True), [[10.4, 1, 1], [9, 0, 1]]),
        (NormalisedWeights(power=0.0), [[7.0, 1, 0], [0, 0, 0]]),
        (CosineSimilarity(), [[9.89949, 7.07107, 0], [0, 0, 0]]),
        (CosineSimilarity(scale=1.0), [[0.989949, 0.707107, 0], [0, 0, 0]]),
    ],
)
def test_rules_that_ignore_lengths(rule, expected):
    torch.testing.assert_close(scores(rule), torch.tensor(expected))
