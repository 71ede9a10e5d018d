"""Logit Adjusted Softmax: observing, scoring, and what is refused."""

import math

import pytest
import torch
import torch.nn.functional as F

from evenstream import CrossEntropy, LogitAdjustedSoftmax
from evenstream.errors import InputError
from tests.helpers.las_samples import brute_force, with_counts


def test_a_call_is_observe_then_score():
    torch.manual_seed(2)
    one, two = LogitAdjustedSoftmax(window=2), LogitAdjustedSoftmax(window=2)
    for batch in ([0, 1], [1, 1, 2], [2, 0, 0]):
        labels, z = torch.tensor(batch), torch.randn(len(batch), 3)
        two.observe(labels, 3)
        assert torch.equal(one(z, labels), two.score(z, labels))


def test_scoring_does_not_count():
    criterion = with_counts([1, 2])
    for _ in range(3):
        criterion.score(torch.zeros(1, 2), torch.tensor([0]))
    assert criterion.prior.weights().tolist() == [1, 2]


def test_observing_does_not_keep_the_callers_tensor():
    criterion, labels = LogitAdjustedSoftmax(window=2), torch.tensor([0, 1])
    criterion.observe(labels, 3)
    labels.fill_(2)
    criterion.observe(torch.tensor([0]), 3)
    criterion.observe(torch.tensor([0]), 3)  # the first batch leaves: 0 and 1, not 2 and 2
    assert criterion.prior.weights().tolist() == [2, 0, 0]


def test_eval_mode_is_cross_entropy_and_pushes_nothing():
    criterion = with_counts([1, 3, 0]).eval()
    before = criterion.prior.weights().clone()
    z = torch.randn(2, 3)
    labels = torch.tensor([2, 0])  # 2 was never observed: no error in eval mode
    assert torch.equal(criterion(z, labels), F.cross_entropy(z, labels))
    assert torch.equal(criterion.prior.weights(), before)
    criterion.train()
    assert not torch.equal(criterion(z, labels), F.cross_entropy(z, labels))


@pytest.mark.parametrize("tau", [0.5, 1, math.inf])
def test_scoring_what_was_never_observed_is_refused(tau):
    criterion = with_counts([2, 1, 0], tau=tau)
    with pytest.raises(InputError, match=r"\[2\].*observe"):
        criterion.score(torch.zeros(2, 4), torch.tensor([0, 2]))
    with pytest.raises(InputError, match=r"\[3\]"):  # beyond the classes counted
        criterion.score(torch.zeros(1, 4), torch.tensor([3]))
    with pytest.raises(InputError, match="observe"):
        LogitAdjustedSoftmax(tau=tau).score(torch.zeros(1, 2), torch.tensor([0]))


def test_what_left_the_window_is_not_observed_any_more():
    criterion = LogitAdjustedSoftmax(window=1)
    criterion.observe(torch.tensor([0]), 2)
    criterion.observe(torch.tensor([1]), 2)
    with pytest.raises(InputError, match=r"\[0\]"):
        criterion.score(torch.zeros(1, 2), torch.tensor([0]))


def test_the_class_count_may_grow_between_calls():
    criterion = LogitAdjustedSoftmax(window=2)
    criterion(torch.zeros(2, 2), torch.tensor([0, 1]))
    z = torch.randn(2, 5, requires_grad=True)
    loss = criterion(z, torch.tensor([4, 0]))  # counts 2 1 0 0 1
    loss.backward()
    rows = [
        brute_force(row, y, [2, 1, 0, 0, 1], 1) for row, y in zip(z.tolist(), [4, 0], strict=True)
    ]
    assert loss.item() == pytest.approx(sum(rows) / 2, abs=1e-5)
    assert (z.grad[:, 2:4] == 0).all()


def test_logits_of_fewer_classes_than_were_counted_are_refused():
    criterion = with_counts([1, 1, 1])
    for call in (criterion.score, criterion):
        with pytest.raises(InputError, match="3 classes"):
            call(torch.zeros(1, 2), torch.tensor([0]))
    assert criterion.prior.weights().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([0, 3]),
        torch.tensor([-1, 0]),
        torch.tensor([0.0, 1.0]),
        torch.tensor([[0, 1]]),
        torch.tensor(1),
        torch.tensor([0, 1], dtype=torch.int32),
    ],
)
def test_bad_labels_are_refused_and_not_counted(labels):
    criterion = with_counts([1, 2, 0])
    with pytest.raises(InputError):
        criterion(torch.zeros(2, 3), labels)
    assert criterion.prior.weights().tolist() == [1, 2, 0]


@pytest.mark.parametrize("labels", [torch.tensor([-1]), torch.tensor([7])])
@pytest.mark.parametrize("tau", [1, math.inf])
def test_scoring_labels_out_of_range_is_refused(labels, tau):
    with pytest.raises(InputError):
        with_counts([1, 1, 1], tau=tau).score(torch.zeros(1, 3), labels)


@pytest.mark.parametrize("tau", [-1, -0.001, math.nan, -math.inf, "1", None, True])
def test_bad_tau_is_refused(tau):
    with pytest.raises(InputError, match="tau"):
        LogitAdjustedSoftmax(tau=tau)


@pytest.mark.parametrize("window", [0, -1, 1.5, "2", None, True])
def test_bad_window_is_refused(window):
    with pytest.raises(InputError, match="window"):
        LogitAdjustedSoftmax(window=window)


def test_bad_reduction_is_refused():
    for kind in (CrossEntropy, LogitAdjustedSoftmax):
        with pytest.raises(InputError, match="reduction"):
            kind(reduction="average")
