"""How a learner trains: modules of one's own, precision, learning rate, and that it learns."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Learner
from evenstream.errors import InputError
from tests.helpers.small_streams import (
    DIM,
    Noisy,
    blobs,
    class_stream,
    feed,
    parameters,
    same,
    small,
)


def test_frozen_parameters_stay():
    module = Noisy()
    for parameter in module.layers[0].parameters():
        parameter.requires_grad_(False)
    frozen = module.layers[0].weight.clone()
    learner = feed(small("er-las", module, weight_decay=0.1, momentum=0.9), class_stream())
    assert torch.equal(module.layers[0].weight, frozen)
    assert not torch.equal(module.layers[1].weight, torch.ones(7))
    assert learner.network.head.weight.requires_grad


def test_lazy_modules_will_do(tmp_path):
    def lazy():
        return nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), nn.ReLU())

    learner = small("er-las", lazy())
    with pytest.raises(InputError):
        learner.learn(np.full((4, DIM), np.nan), ["a"] * 4)
    feed(learner, class_stream()[:4])
    learner.save(tmp_path)
    resumed = Learner.load(tmp_path, lazy())
    for one in (learner, resumed):
        feed(one, class_stream()[4:])
    assert same(parameters(learner), parameters(resumed))


def test_a_module_without_parameters_will_do():
    learner = feed(small("er-las", nn.Sequential()), class_stream())  # the inputs are the features
    assert learner.network.head.in_features == DIM
    assert len(learner.predict(blobs(3)[0])) == 3


def test_learning_inside_no_grad_works():
    with torch.no_grad():
        inside = feed(small(), class_stream())
        assert not torch.is_grad_enabled()
    assert inside.fingerprint() == feed(small(), class_stream()).fingerprint()


def test_bfloat16_learns():
    learner = feed(small(dtype="bfloat16"), class_stream(40, batch=8, classes=2))
    x, labels = class_stream(1, batch=50, classes=2, seed=9)[0]
    right = np.mean([p == t for p, t in zip(learner.predict(x), labels, strict=True)])
    assert right > 0.9 and learner.network.head.weight.dtype == torch.float32


def test_it_learns_and_adjustment_helps_against_forgetting():
    """Six classes, two at a time: what the library is for, on a toy."""
    x, y = blobs(300, classes=6, seed=77)
    labels = [f"class {value}" for value in y]

    def accuracy(method):
        learner = feed(small(method, memory=12, replay_batch=2), class_stream(90, 8, 6))
        return np.mean([p == t for p, t in zip(learner.predict(x), labels, strict=True)])

    fine, er, las = (accuracy(method) for method in ("fine-tune", "er", "er-las"))
    assert fine < 0.5 < er and las > er + 0.05


def test_the_learning_rate_can_be_changed_and_is_saved(tmp_path):
    stream = class_stream()
    learner, other = small("er", lr=0.5), small("er", lr=0.01)
    learner.lr = 0.01  # before there is an optimiser
    feed(learner, stream[:3])
    feed(other, stream[:3])
    assert learner.fingerprint() == other.fingerprint()
    learner.lr = 0.2
    learner.save(tmp_path / "saved")
    resumed = Learner.load(tmp_path / "saved")
    assert resumed.lr == 0.2
    before = parameters(learner)
    feed(learner, stream[3:5])
    feed(resumed, stream[3:5])
    feed(other, stream[3:5])
    assert same(parameters(resumed), parameters(learner))
    moved, less = (
        sum(float((after[name] - before[name]).abs().sum()) for name in before)
        for after in (parameters(learner), parameters(other))
    )
    assert moved > 5 * less
    with pytest.raises(InputError, match="lr must be a finite number"):
        learner.lr = math.nan
    assert learner.lr == 0.2


def own_rates(learner):
    optimizers = learner.method.optimizers.values()
    return {group["lr"] for optimizer in optimizers for group in optimizer.param_groups}


@pytest.mark.parametrize(
    ("method", "follows"),
    [("scr", True), ("er-obc:surrogate_head=true", True), ("er-cba:adaptor_lr=0.01", False)],
)
def test_a_new_learning_rate_is_also_for_a_methods_modules_unless_they_have_one(
    method, follows, tmp_path
):
    learner = feed(small(method, lr=0.01), class_stream()[:3])
    learner.lr = 0.2
    feed(learner, class_stream()[3:])  # the surrogate head grows
    assert own_rates(learner) == {0.2 if follows else 0.01}
    learner.save(tmp_path / "saved")
    resumed = Learner.load(tmp_path / "saved")
    resumed.lr = 0.4
    assert own_rates(resumed) == {0.4 if follows else 0.01}
