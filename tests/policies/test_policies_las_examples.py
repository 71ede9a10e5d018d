"""Logit Adjusted Softmax: the worked examples of the spec."""

import math

import pytest
import torch
import torch.nn.functional as F

from evenstream import LogitAdjustedSoftmax
from evenstream.policies.priors import SlidingWindow
from tests.helpers.las_samples import Fixed, loss_and_gradient, with_counts

A_LOGITS = [2.0, 1.0, 0.5, -1.0]
A_COUNTS = [4, 1, 3, 0]


@pytest.mark.parametrize(
    ("tau", "expected"),
    [(0, 1.4951819), (0.5, 2.0131823), (1, 2.6168643), (2, 3.9110482), (3, 5.2540852)],
)
def test_example_a(tau, expected):
    loss, _ = loss_and_gradient(with_counts(A_COUNTS, tau=tau), A_LOGITS, 1)
    assert loss == pytest.approx(expected, abs=1e-6)


def test_example_a_gradient():
    _, gradient = loss_and_gradient(with_counts(A_COUNTS), A_LOGITS, 1)
    expected = torch.tensor([0.7940809, -0.9269685, 0.1328876, 0.0])
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=0)
    assert gradient[3].item() == 0.0


def test_example_a_frequencies_give_the_same_as_counts():
    frequencies = torch.tensor(A_COUNTS) / sum(A_COUNTS)
    loss, gradient = loss_and_gradient(LogitAdjustedSoftmax(prior=Fixed(frequencies)), A_LOGITS, 1)
    _, counted = loss_and_gradient(with_counts(A_COUNTS), A_LOGITS, 1)
    assert loss == pytest.approx(2.6168643, abs=1e-6)
    torch.testing.assert_close(gradient, counted)


def test_example_a_uniform_over_the_present_classes_is_masked_cross_entropy():
    loss, _ = loss_and_gradient(with_counts([2, 2, 2, 0]), A_LOGITS, 1)
    assert loss == pytest.approx(1.4643688, abs=1e-6)


def test_example_b():
    criterion = LogitAdjustedSoftmax(reduction="none")
    labels = torch.tensor([2, 2, 3, 0])
    losses = criterion(torch.zeros(4, 4), labels)
    expected = torch.tensor([math.log(2), math.log(2), math.log(4), math.log(4)])
    torch.testing.assert_close(losses, expected)
    mean = LogitAdjustedSoftmax()(torch.zeros(4, 4), labels)
    assert mean.item() == pytest.approx(1.0397208, abs=1e-6)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (1, (0, 0, 0.5, 0.5)),
        (2, (0.125, 0.125, 0.5, 0.25)),
        (3, (0.25, 0.25, 1 / 3, 1 / 6)),
        (9, (0.25, 0.25, 1 / 3, 1 / 6)),
    ],
)
def test_example_c(window, expected):
    prior = SlidingWindow(window)
    for batch in ([0, 0, 1, 1], [0, 1, 2, 2], [2, 2, 3, 3]):
        prior.observe(torch.tensor(batch), 4)
    frequencies = prior.weights() / prior.weights().sum()
    torch.testing.assert_close(frequencies, torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize(
    ("tau", "y", "expected"),
    [
        (1, 0, 0.645056),
        (1, 1, 0.743668),
        (0.5, 0, 0.943673),
        (2, 0, 0.263926),
        (0, 0, 2.407606),
        (math.inf, 0, 0.0),
        (math.inf, 1, 0.743668),
    ],
)
def test_golden_numbers(tau, y, expected):
    loss, _ = loss_and_gradient(with_counts([3, 1, 0], tau=tau), [1.0, 2.0, 3.0], y)
    assert loss == pytest.approx(expected, abs=2e-6)


def test_golden_gradient():
    _, gradient = loss_and_gradient(with_counts([3, 1, 0]), [1.0, 2.0, 3.0], 0)
    torch.testing.assert_close(gradient, torch.tensor([-0.4754, 0.4754, 0.0]), atol=5e-5, rtol=0)


@pytest.mark.parametrize(("window", "expected"), [(2, 0.948154), (1, 0.313262)])
def test_golden_window(window, expected):
    criterion = LogitAdjustedSoftmax(window=window)
    for batch in ([0, 0, 0, 0], [1, 1, 2, 2]):  # together (4, 2, 2)
        criterion.observe(torch.tensor(batch), 3)
    loss, _ = loss_and_gradient(criterion, [0.5, 1.0, 0.0], 1)
    assert loss == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("y", "expected", "gradient"),
    [
        (0, 0.0, [0.0, 0.0, 0.0, 0.0]),
        (1, 2.6168643, [0.7940809, -0.9269685, 0.1328876, 0.0]),
        (2, 1.9424163, [0.8566429, 0.0, -0.8566429, 0.0]),
    ],
)
def test_infinite_tau_on_example_a(y, expected, gradient):
    loss, found = loss_and_gradient(with_counts(A_COUNTS, tau=math.inf), A_LOGITS, y)
    assert loss == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(found, torch.tensor(gradient), atol=1e-6, rtol=0)


def test_infinite_tau_keeps_ties():
    loss, _ = loss_and_gradient(with_counts([2, 2, 1], tau=math.inf), [0.3, -0.2, 5.0], 0)
    expected = F.cross_entropy(torch.tensor([[0.3, -0.2]]), torch.tensor([0]))
    assert loss == pytest.approx(expected.item(), abs=1e-6)
