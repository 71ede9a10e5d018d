"""ER with the sum of two means, and with a forward for each group of rows."""

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import LogitAdjustedSoftmax
from evenstream.composition import compose
from tests.helpers.method_samples import Group, assert_value, numpy_loss, step_of
from tests.helpers.small_streams import class_stream, feed, images, parameters, same, small

INCOMING = [[1.0, 0, 2], [0, 3, 1], [1, 1, 0]], [2, 0, 2]
REPLAYED = [[0.5, 0, 1]], [1]
COUNTS = np.array([1, 1, 2])
SUM = "reduction=sum-of-means"


def loss_of(spec, *groups):
    """The loss, with every label of the step observed if there is an adjustment."""
    composition, step = compose(spec), step_of(*groups)
    criterion = composition.criterion
    if isinstance(criterion, LogitAdjustedSoftmax):
        criterion.observe(torch.cat([group.y for group in groups]), groups[0].x.shape[1])
        step.ce = criterion.score
    return composition.method.loss(step)


@pytest.mark.parametrize("forwards", ["joint", "separate"])
@pytest.mark.parametrize("method", ["er", "er-las"])
def test_worked_numbers(method, forwards):
    prior = COUNTS if method == "er-las" else np.ones(3)
    incoming, replayed = numpy_loss(*INCOMING, prior), numpy_loss(*REPLAYED, prior)
    found = loss_of(f"{method}:{SUM},forwards={forwards}", Group(*INCOMING), Group(*REPLAYED))
    assert_value(found, incoming.mean() + replayed.mean())
    found = loss_of(f"{method}:forwards={forwards}", Group(*INCOMING), Group(*REPLAYED))
    assert_value(found, np.concatenate([incoming, replayed]).mean())


def test_the_worked_sum_by_hand():
    """ln 2 of an undecided pair, then ln 4: the replayed row weighs as much as both incoming."""
    incoming, replayed = Group([[0.0, 0, -99, -99]] * 2, [0, 1]), Group([[0.0] * 4], [3])
    assert_value(loss_of(f"er:{SUM}", incoming, replayed), float(np.log(2) + np.log(4)))
    assert_value(loss_of("er", incoming, replayed), float((2 * np.log(2) + np.log(4)) / 3))


@pytest.mark.parametrize("method", ["er", "er-las"])
def test_with_as_many_replayed_rows_the_step_is_twice_as_long(method):
    gradients = []
    for spec in (method, f"{method}:{SUM}"):
        groups = Group([[1.0, 0, 2], [0, 3, 1]], [2, 0]), Group([[0.5, 0, 1], [2, 0, 0]], [0, 1])
        loss_of(spec, *groups).backward()
        gradients.append(torch.cat([group.x.grad for group in groups]))
    torch.testing.assert_close(gradients[1], 2 * gradients[0])


def test_an_empty_memory_leaves_one_mean():
    nothing = Group(np.zeros((0, 3)), [])
    for options in (SUM, "forwards=separate", f"{SUM},forwards=separate"):
        assert torch.equal(
            loss_of(f"er:{options}", Group(*INCOMING), nothing),
            loss_of("er", Group(*INCOMING), nothing),
        )


def test_las_without_strength_is_the_plain_form():
    for options in (SUM, f"{SUM},forwards=separate"):
        plain, las = (
            feed(small(spec), class_stream())
            for spec in (f"er:{options}", f"er-las:{options},tau=0")
        )
        assert same(parameters(plain), parameters(las))


def pixels(norm):
    """A network for images, with BatchNorm or without."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4) if norm else nn.Identity(), nn.ReLU()
        return nn.Sequential(*layers, nn.Flatten())


@pytest.mark.parametrize("norm", [False, True])
def test_separate_forwards_see_the_same_views_and_differ_by_batchnorm_alone(norm):
    found = []
    for spec in ("er", "er:forwards=separate"):
        learner = small(spec, pixels(norm), augment="crop1+flip", lr=0.01)
        for seed in range(4):
            learner.learn(images(6, seed=seed), [0, 1, 2, 3, 0, 1])
        found.append(learner.network.head.weight.detach())
    assert torch.allclose(*found, rtol=0, atol=1e-5) != norm
