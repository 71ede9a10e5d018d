"""Steps beside the main update, on groups of parameters, and failures after it: all is undone."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

from evenstream.errors import InputError, NonFiniteLoss, UnknownName
from evenstream.methods.er import ER
from evenstream.policies.storing import Placement, Storing, reservoir_slots
from tests.helpers.own_methods import NAMES, OPTIMIZERS, named
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


@named
@dataclass
class TwoSteps(ER):
    """A second step on the head, which can fail."""

    second: str = "head"
    explode: bool = False

    def after_step(self, step):
        x, y = step.joint()
        loss = F.cross_entropy(step.net(x), y)
        step.update(loss, self.second)
        step.update(loss.detach() * 0 + F.cross_entropy(step.net(x), y), self.second)
        if self.explode:
            step.update(F.cross_entropy(step.net(x), y) * float("nan"), self.second)


def test_the_head_alone_is_trained():
    """With momentum too, which must not carry the rest of the network along."""
    for options in OPTIMIZERS:
        plain = small(TwoSteps(), Noisy(), memory=0, **options)
        x, y = blobs(6)
        plain.learn(x, y)
        hook, calls = plain.method.after_step, []

        def spied(step, hook=hook, calls=calls, learner=plain):
            calls.append(parameters(learner))
            hook(step)
            calls.append(parameters(learner))

        plain.method.after_step = spied
        plain.learn(x, y)
        before, after = calls
        changed = {n for n in before if not torch.equal(before[n], after[n])}
        assert {n for n in changed if "running" not in n and "tracked" not in n} == {
            "head.weight",
            "head.bias",
        }


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
@pytest.mark.parametrize("second", ["head", "network"])
@pytest.mark.parametrize("labels", [["class 0"] * 4, ["new", "class 0", "newer", "class 1"]])
def test_a_failure_after_the_main_update_undoes_it(options, second, labels):
    stream = class_stream(8)
    learner = feed(small(TwoSteps(second=second), Noisy(), **options), stream[:4])
    twin = feed(small(TwoSteps(second=second), Noisy(), **options), stream[:4])
    learner.method.explode = True  # type: ignore[attr-defined]
    refused(learner, lambda: learner.learn(stream[4][0], labels), NonFiniteLoss)
    refused(learner, lambda: learner.learn(stream[4][0], labels), NonFiniteLoss)
    learner.method.explode = False  # type: ignore[attr-defined]
    # `explode` is in the spec, hence in the fingerprint: equal again now
    assert feed(learner, stream[4:]).fingerprint() == feed(twin, stream[4:]).fingerprint()


def test_a_failure_in_the_first_step_undoes_the_users_module():
    module = Noisy()
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    learner = small(TwoSteps(explode=True), module, optimizer="adam")
    refused(learner, lambda: learner.learn(*blobs(4)), NonFiniteLoss)
    assert same(dict(module.state_dict()), weights)
    assert not learner.built


@named
@dataclass
class InnerStep(ER):
    """Steps on the network inside `loss`, then may fail in the main loss."""

    explode: bool = False

    def loss(self, step):
        x, y = step.joint()
        step.update(F.cross_entropy(step.net(x), y))
        return super().loss(step) * (float("nan") if self.explode else 1)


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_a_step_inside_the_loss_is_undone(options):
    learner = feed(small(InnerStep(), Noisy(), **options), class_stream()[:4])
    learner.method.explode = True  # type: ignore[attr-defined]
    refused(learner, lambda: learner.learn(*blobs(4)), NonFiniteLoss)


@named
@dataclass
class FailingStore(ER):
    explode: bool = False

    def stored_rows(self, step):
        if self.explode:
            raise InputError("changed my mind")


class FailingUpdate(Storing):
    explode = False

    def place(self, step, rows):
        slots, chosen = reservoir_slots(step.memory, len(rows), step.randomness.reservoir)
        if self.explode:
            raise InputError("no room")
        return Placement(slots, chosen)


@named
@dataclass
class OwnUpdate(ER):
    def make_storing(self):
        return FailingUpdate()


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_a_failure_while_storing_undoes_the_update(options):
    learner = feed(small(FailingStore(), Noisy(), **options), class_stream()[:4])
    learner.method.explode = True  # type: ignore[attr-defined]
    refused(learner, lambda: learner.learn(*blobs(4)), InputError, "changed my mind")
    learner = feed(small(OwnUpdate(), Noisy(), **options), class_stream()[:4])
    learner.composition.storing.explode = True  # type: ignore[attr-defined]
    refused(learner, lambda: learner.learn(*blobs(4)), InputError, "no room")


def test_an_unknown_group_is_named():
    learner = feed(small(TwoSteps()), [])
    learner.method.second = "haed"  # type: ignore[attr-defined]
    with pytest.raises(UnknownName, match=r"unknown group 'haed'.*head"):
        learner.learn(*blobs(4))
