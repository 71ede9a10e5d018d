"""The growing head and the optimiser's state that grows with it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream.core.classifier import Classifier
from evenstream.core.heads import GrowingHead
from evenstream.core.optimizers import (
    OPTIMIZERS,
    load_optimizer_state,
    optimizer_state,
    replace_parameter,
)
from evenstream.errors import UnknownName
from tests.helpers.small_streams import class_stream, feed, parameters, same, small


@given(sizes=st.lists(st.integers(0, 9), max_size=4), seed=st.integers(0, 99))
def test_a_grown_head_equals_one_made_in_advance(sizes, seed):
    grown, total = GrowingHead(4, seed), max(sizes, default=0)
    for size in sizes:
        grown.grow(size)
    at_once = GrowingHead(4, seed, total)
    assert grown.out_features == total
    assert torch.equal(grown.weight, at_once.weight) and torch.equal(grown.bias, at_once.bias)


def test_rows_follow_the_seed_and_the_law_of_linear_layers():
    one, two = GrowingHead(16, 0, 300), GrowingHead(16, 1, 300)
    assert not torch.equal(one.weight, two.weight)
    bound = 1 / math.sqrt(16)
    for values in (one.weight.flatten(), one.bias):
        assert values.abs().max() <= bound
        assert values.var().item() == pytest.approx(bound**2 / 3, rel=0.15)
    rows = one.weight.detach()
    assert len({tuple(row.tolist()) for row in rows}) == len(rows)


def test_growth_keeps_old_logits():
    head = GrowingHead(3, 0, 2)
    with torch.no_grad():
        head.weight.mul_(5)
    features = torch.randn(4, 3)
    before = head(features)
    head.grow(5)
    after = head(features)
    assert after.shape == (4, 5)
    torch.testing.assert_close(after[:, :2], before, atol=0, rtol=1e-6)
    assert torch.equal(head(features, 2), before)


def test_a_head_loads_rows_it_does_not_have_yet():
    big, small_head = GrowingHead(3, 0, 5), GrowingHead(3, 7, 1)
    small_head.load_state_dict(big.state_dict())
    assert torch.equal(small_head.weight, big.weight) and torch.equal(small_head.bias, big.bias)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"optimizer": "adam", "lr": 0.01},
        {"optimizer": "adamw", "lr": 0.01},
        {"optimizer": "muon", "lr": 0.02},
    ],
    ids=["sgd", "momentum", "adam", "adamw", "muon"],
)
@pytest.mark.parametrize("method", ["er", "er-las"])
def test_a_run_with_a_preallocated_head_is_the_same_run(method, options):
    """Bit for bit; rows of classes still to come have not moved at all.

    PyTorch's fused Adam rounds the last few numbers of a tensor in another way than the others, so
    which row is the last makes a difference there.
    """
    stream = class_stream(12, classes=6)
    if options.get("optimizer") == "adamw":
        options = {**options, "weight_decay": 0.0}
    growing = feed(small(method, **options), stream)
    fixed = feed(small(method, head_size=9, **options), stream)
    mine, theirs = parameters(growing), parameters(fixed)
    untouched = GrowingHead(fixed.network.head.in_features, 0, 9)
    assert torch.equal(theirs["head.weight"][6:], untouched.weight[6:])
    for name in ("head.weight", "head.bias"):
        theirs[name] = theirs[name][:6]
    x, _ = stream[0]
    chances = growing.predict_proba(x), fixed.predict_proba(x)
    if "optimizer" in options:
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(*chances, rtol=1e-4, atol=1e-6)
    else:
        assert same(mine, theirs)
        assert chances[0].tobytes() == chances[1].tobytes()


def test_scope_all_pushes_down_classes_that_have_not_come():
    stream = class_stream(6, classes=2)
    seen = feed(small("er", head_size=4), stream)
    everything = feed(small("er", head_size=4, scope="all"), stream)
    fresh = GrowingHead(100, 0, 4)
    assert torch.equal(seen.network.head.bias[2:], fresh.bias[2:])
    assert (everything.network.head.bias[2:] < fresh.bias[2:]).all()
    assert everything.predict_proba(stream[0][0]).shape == (4, 2)


def test_scope_all_does_not_touch_them_with_logit_adjustment():
    learner = feed(small("er-las", head_size=4, scope="all"), class_stream(6, classes=2))
    fresh = GrowingHead(100, 0, 4)
    assert torch.equal(learner.network.head.weight[2:], fresh.weight[2:])


# ---- the optimiser -------------------------------------------------------------------------------


def made(name, layer, momentum=0.0, weight_decay=0.0):
    groups = {"head": list(layer.parameters())}
    return OPTIMIZERS.find(name)(groups, lr=0.1, momentum=momentum, weight_decay=weight_decay)


def trained(name, **options):
    layer = nn.Linear(3, 2)
    optimizer = made(name, layer, **options)
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.randn(5, 3)).pow(2).sum().backward()
        optimizer.step()
    return layer, optimizer


@pytest.mark.parametrize(
    ("name", "options", "entries"),
    [
        ("sgd", {"momentum": 0.9}, ("momentum_buffer",)),
        ("adam", {}, ("exp_avg", "exp_avg_sq")),
        ("adamw", {"weight_decay": 0.1}, ("exp_avg", "exp_avg_sq")),
    ],
)
def test_state_is_carried_over_and_padded_with_zeros(name, options, entries):
    layer, optimizer = trained(name, **options)
    old = layer.weight
    before = {key: optimizer.state[old][key].clone() for key in optimizer.state[old]}
    new = nn.Parameter(torch.cat([old.detach(), torch.ones(2, 3)]))
    replace_parameter(optimizer, old, new)
    assert optimizer.param_groups[0]["params"][0] is new and old not in optimizer.state
    for entry in entries:
        value = optimizer.state[new][entry]
        assert torch.equal(value[:2], before[entry]) and torch.equal(value[2:], torch.zeros(2, 3))
    if name != "sgd":
        assert optimizer.state[new]["step"].item() == 3


def test_a_parameter_without_state_is_just_replaced():
    layer = nn.Linear(3, 2)
    optimizer = made("adam", layer)
    new = nn.Parameter(torch.zeros(4, 3))
    replace_parameter(optimizer, layer.weight, new)
    assert optimizer.param_groups[0]["params"][0] is new and not optimizer.state


@pytest.mark.parametrize(
    ("name", "options"), [("sgd", {"momentum": 0.9}), ("adam", {}), ("adamw", {}), ("muon", {})]
)
def test_a_loaded_optimizer_goes_on_alone(name, options):
    layer, optimizer = trained(name, **options)
    twin = nn.Linear(3, 2)
    twin.load_state_dict(layer.state_dict())
    other = made(name, twin, **options)
    load_optimizer_state(other, optimizer_state(optimizer))
    x = torch.randn(5, 3)
    for module, own in ((layer, optimizer), (twin, other)):  # one after the other
        own.zero_grad()
        module(x).pow(2).sum().backward()
        own.step()
        assert all(torch.isfinite(p).all() for p in module.parameters())
    assert same(dict(layer.state_dict()), dict(twin.state_dict()))


def test_unknown_optimizer():
    with pytest.raises(UnknownName, match=r"adma.*adam"):
        small(optimizer="adma")


# ---- one row with BatchNorm ----------------------------------------------------------------------


def batchnorm_classifier():
    backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    return Classifier(backbone, GrowingHead(4, 0, 2), torch.float32).train()


def test_a_single_row_uses_running_statistics_and_leaves_them_alone():
    torch.manual_seed(0)
    network = batchnorm_classifier()
    network(torch.randn(8, 3) + 3)  # moves the running statistics away from 0 and 1
    buffers = {name: b.clone() for name, b in network.named_buffers()}
    x = torch.randn(1, 3)
    logits = network(x)
    logits.sum().backward()
    assert all(module.training for module in network.modules())
    assert all(torch.equal(b, buffers[name]) for name, b in network.named_buffers())
    network.eval()
    assert torch.equal(network(x), logits)
    assert network.backbone[0].weight.grad.abs().sum() > 0


def test_several_rows_use_their_own_statistics():
    network = batchnorm_classifier()
    before = network.backbone[1].running_mean.clone()
    network(torch.randn(2, 3))
    assert not torch.equal(network.backbone[1].running_mean, before)


def test_a_single_image_with_a_map_trains_batchnorm_as_usual():
    backbone = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
    network = Classifier(backbone, GrowingHead(8, 0, 2), torch.float32).train()
    network(torch.randn(1, 1, 4, 4))
    assert backbone[1].num_batches_tracked.item() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_float32(dtype):
    network = batchnorm_classifier()
    network.dtype = dtype
    x = torch.randn(4, 3)
    assert network(x).dtype == network.features(x).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert network(x).dtype == torch.float32


@settings(max_examples=20)
@given(st.integers(0, 5), st.integers(0, 5))
def test_width_limits_the_logits(size, width):
    network = Classifier(nn.Identity(), GrowingHead(3, 0, size), torch.float32)
    network.width = width
    assert network(torch.zeros(2, 3)).shape == (2, min(size, width))
