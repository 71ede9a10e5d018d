"""What has no text form is given again when a learner is loaded, and must be the same."""

from functools import partial

import pandas as pd
import pytest
import torch
from torch import nn

from evenstream import (
    Frozen,
    Learner,
    LogitAdjustedSoftmax,
    TableEncoder,
    retrieval,
    storing,
)
from evenstream.errors import CheckpointError, InputError
from tests.helpers.small_streams import class_stream, feed

STREAM = class_stream(4)
SIZE = STREAM[0][0].shape[1]


def net(*layers, lazy=False):
    return nn.Sequential(nn.LazyLinear(8) if lazy else nn.Linear(SIZE, 8), *layers)


def saved(model, learn=True, **parts):
    learner = Learner("er", model, **parts)
    return feed(learner, STREAM).to_bytes() if learn else learner.to_bytes()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("before", "other"),
    [
        (nn.ReLU, nn.Tanh),
        (partial(nn.LeakyReLU, 0.1), partial(nn.LeakyReLU, 0.2)),
        (nn.Identity, partial(nn.Sequential, nn.ReLU())),
    ],
)
def test_another_module_with_the_same_weights_is_refused(before, other, frozen):
    def model(layer):
        return Frozen(nn.Flatten(), then=net(layer)) if frozen else net(layer)

    whole = saved(model(before()))
    with pytest.raises(CheckpointError, match=r"1(\.0)? is .* here and was"):
        Learner.from_bytes(whole, model(other()))
    again = Learner.from_bytes(whole, model(before()))
    assert again.to_bytes() == whole
    again.learn(*STREAM[0])


@pytest.mark.parametrize("learn", [False, True])
def test_what_the_first_batch_decides_is_not_compared(learn):
    whole = saved(net(lazy=True), learn)
    for again in (net(lazy=True), net()):
        feed(Learner.from_bytes(whole, again), STREAM)


def test_settings_written_by_another_version_of_pytorch_are_not_compared():
    learner = Learner("er", net(nn.LeakyReLU(0.1)))
    state = feed(learner, STREAM).state()
    fingerprint = learner.fingerprint()
    state["structure"]["torch"] = "1.0"
    again = Learner.from_state(state, net(nn.LeakyReLU(0.2)))
    assert again.fingerprint() == fingerprint
    with pytest.raises(CheckpointError, match="1 is ReLU here"):
        Learner.from_state(state, net(nn.ReLU()))
    del state["structure"]  # as in saves of earlier versions
    assert Learner.from_state(state, net(nn.ReLU())).fingerprint() == fingerprint


def noise(scale):
    def add(images):
        return images + scale * torch.randn_like(images)

    return add


def shift(images, by=0.5, *, back=0.1):
    return images + by - back


@pytest.mark.parametrize(
    ("before", "other", "held"),
    [
        (noise(0.1), noise(0.2), "scale=0.1"),
        (partial(shift, by=0.2), partial(shift, by=0.3), "by=0.2"),
    ],
)
def test_a_function_that_holds_another_value_is_refused(before, other, held):
    whole = saved("mlp", augment=before)
    with pytest.raises(CheckpointError, match=held):
        Learner.from_bytes(whole, augment=other)
    assert Learner.from_bytes(whole, augment=before).to_bytes() == whole


def test_a_value_that_a_function_counts_up_is_compared_as_it_was_at_first():
    def counting():
        calls = 0

        def count(images):
            nonlocal calls
            calls += 1
            return images

        return count

    whole = saved("mlp", augment=counting())
    assert Learner.from_bytes(whole, augment=counting()).to_bytes() == whole


def test_a_methods_own_policies_given_by_name_are_not_asked_for_again():
    whole = saved("mlp", retrieval=retrieval.Uniform(), storing=storing.Reservoir())
    assert Learner.from_bytes(whole).to_bytes() == whole


def test_what_is_not_in_the_text_is_printed():
    learner = Learner("er", "mlp", criterion=LogitAdjustedSoftmax(reduction="sum"), augment=shift)
    first = "Learner er, criterion=LogitAdjustedSoftmax, augment=shift"
    assert str(learner).splitlines()[0] == first
    assert str(Learner("er-las", "mlp")).splitlines()[0] == "Learner er-las"


def test_a_learner_is_loaded_from_what_save_returns(tmp_path):
    learner = feed(Learner("er", "mlp"), STREAM)
    saved = learner.save(tmp_path / "folder")
    assert saved == tmp_path / "folder"
    assert Learner.load(saved).fingerprint() == learner.fingerprint()


def test_table_and_tickets_are_composed_in_the_constructor():
    table = TableEncoder.infer(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    learner = Learner("er", "mlp", table=table, open_tickets=3, ticket_steps=5)
    by_setting = Learner("er", "mlp")
    by_setting.table = table
    by_setting.limit_tickets(3, 5)
    assert learner.fingerprint() == by_setting.fingerprint()
    again = Learner.from_bytes(learner.to_bytes())
    assert again.table == table and again.fingerprint() == learner.fingerprint()
    for wrong in ({"table": 3}, {"open_tickets": 0}, {"ticket_steps": 1.5}):
        with pytest.raises(InputError, match=r"table must be|whole number of 1 or more"):
            Learner("er", "mlp", **wrong)
