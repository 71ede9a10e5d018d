"""Modules, optimisers, tensors, fields and teachers of a method's own: saved, resumed, undone."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.core.averaging import average_into
from evenstream.core.classifier import Classifier, frozen_copy
from evenstream.core.heads import GrowingHead
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.methods import Method
from evenstream.policies.criteria import LogitAdjustedSoftmax
from tests.helpers.own_methods import NAMES, OPTIMIZERS, Teacher, named
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
class Everything(Method):
    """Own module (with BatchNorm), own optimiser, tensors, generator, stored logits, two groups."""

    trained_groups = ("network", "adaptor")
    logits_follow_criterion = False
    explode: bool = False

    def on_setup(self, learner):
        width = learner.network.head.in_features
        adaptor = nn.Sequential(nn.Linear(width, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.modules["adaptor"] = adaptor
        self.optimizers["adaptor"] = torch.optim.Adam(adaptor.parameters(), lr=0.01)
        self.tensors["steps"] = torch.zeros((), dtype=torch.int64)

    def training_rows(self, step):
        step.notes["replayed"] = step.retrieve()
        return [step.incoming]

    def loss(self, step):
        features, logits = step.forward(step.incoming.x)
        step.remember(logits=logits)
        loss = step.ce(logits, step.incoming.y)
        replayed = step.notes["replayed"]
        if len(replayed):
            stored = replayed.fields["logits"]
            loss = loss + 0.1 * F.mse_loss(step.net(replayed.x)[:, : stored.shape[1]], stored)
        noise = torch.rand(1, generator=step.randomness.method)
        return loss + 0.1 * (self.modules["adaptor"](features) - noise).pow(2).mean()

    def after_step(self, step):
        self.tensors["steps"] = self.tensors["steps"] + 1
        features = step.forward(step.incoming.x)[0].detach()
        step.update(self.modules["adaptor"](features).pow(2).mean(), "adaptor")
        if self.explode:
            step.update(self.modules["adaptor"](features).mean() * float("nan"), "adaptor")


def own_state(method):
    return {
        **{f"module {k}": v.clone() for k, v in method.modules["adaptor"].state_dict().items()},
        "steps": method.tensors["steps"],
    }


def test_own_state_is_trained_saved_and_restored(tmp_path):
    stream = class_stream(10, classes=6)
    options = {"model": "mlp", "memory": 6}
    torch.manual_seed(1)
    whole = feed(small(Everything(), **options), stream)
    torch.manual_seed(2)  # the adaptor's weights must not depend on the outside
    part = feed(small(Everything(), **options), stream[:6])
    initial = small(Everything(), **options)
    initial.learn(*stream[0])
    assert not same(own_state(initial.method), own_state(part.method))
    part.save(tmp_path)
    torch.manual_seed(3)
    outside = torch.get_rng_state()
    loaded = Learner.load(tmp_path, method=Everything())
    assert torch.equal(torch.get_rng_state(), outside)
    assert loaded.fingerprint() == part.fingerprint()
    assert same(own_state(loaded.method), own_state(part.method))
    feed(loaded, stream[6:])
    assert loaded.fingerprint() == whole.fingerprint()
    assert loaded.method.tensors["steps"].item() == 10


def test_own_state_of_a_copy_is_its_own():
    stream = class_stream(10)
    first = feed(small(Everything()), stream[:5])
    twin = Learner.from_state(first.state(), method=Everything())
    before = twin.fingerprint()
    feed(first, stream[5:])
    assert twin.fingerprint() == before
    assert feed(twin, stream[5:]).fingerprint() == first.fingerprint()


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_own_state_is_undone(options):
    stream = class_stream(8)
    learner = feed(small(Everything(), Noisy(), memory=5, **options), stream[:4])
    twin = feed(small(Everything(), Noisy(), memory=5, **options), stream[:4])
    learner.method.explode = True  # type: ignore[attr-defined]
    before = own_state(learner.method)
    refused(learner, lambda: learner.learn(blobs(4)[0], ["new", "class 0", "x", "x"]))
    assert same(own_state(learner.method), before)
    learner.method.explode = False  # type: ignore[attr-defined]
    assert feed(learner, stream[4:]).fingerprint() == feed(twin, stream[4:]).fingerprint()
    fresh = small(Everything(explode=True), Noisy())
    refused(fresh, lambda: fresh.learn(*blobs(4)), NonFiniteLoss)
    assert fresh.method.modules == {} and fresh.method.tensors == {}


def test_stored_logits_widen_with_the_head():
    learner = small(Everything(), memory=20)
    x, _ = blobs(3)
    learner.learn(x, ["a", "b", "a"])
    first = learner.memory.field("logits").clone()
    learner.learn(x, ["c", "d", "a"])
    stored = learner.memory.field("logits")
    assert first.shape == (3, 2) and stored.shape == (6, 4)
    assert torch.equal(stored[:3, :2], first) and (stored[:3, 2:] == 0).all()


def test_logits_shaped_by_another_loss_take_no_priors():
    learner = feed(small(Everything(), criterion=LogitAdjustedSoftmax()), class_stream()[:3])
    with pytest.raises(InputError, match="another loss"):
        learner.predict(blobs(2)[0], {"class 0": 1.0})


@pytest.mark.parametrize("options", [{}, {"head_size": 8}], ids=["growing", "preallocated"])
def test_a_teacher_comes_back_as_it_was(tmp_path, options):
    stream = class_stream(9, classes=6)

    def drive(learner, start, stop):
        for index in range(start, stop):
            if index % 3 == 0:
                if learner.in_task:
                    learner.end_task()
                learner.start_task()
            learner.learn(*stream[index])
        return learner

    whole = drive(small(Teacher(), Noisy(), **options), 0, 9)
    part = drive(small(Teacher(), Noisy(), **options), 0, 5)  # new classes since the copy
    part.save(tmp_path)
    loaded = Learner.load(tmp_path, Noisy(), method=Teacher())
    assert loaded.fingerprint() == part.fingerprint()
    x = torch.from_numpy(stream[0][0])
    for learner in (part, loaded):
        teacher = learner.method.modules["teacher"]
        assert teacher(x).shape == (4, 2) and not teacher.training
        assert not any(p.requires_grad for p in teacher.parameters())
    assert drive(loaded, 5, 9).fingerprint() == whole.fingerprint()


def test_a_teacher_is_not_trained():
    learner = small(Teacher())
    learner.start_task()
    feed(learner, class_stream()[:3])
    learner.end_task()
    before = {k: v.clone() for k, v in learner.method.modules["teacher"].state_dict().items()}
    assert same(before, parameters(learner))
    learner.start_task()
    feed(learner, class_stream()[3:9])
    assert same(before, dict(learner.method.modules["teacher"].state_dict()))
    assert not same({"w": before["head.weight"]}, {"w": learner.network.head.weight[:2]})


def test_weights_that_layers_share_are_averaged_once():
    shared = nn.Linear(3, 3)
    backbone = nn.Sequential(shared, nn.ReLU(), shared)
    network = Classifier(backbone, GrowingHead(3, 0, 2), torch.float32)
    average = frozen_copy(network)
    before = average.backbone[0].weight.clone()
    with torch.no_grad():
        shared.weight += 1
    average_into(average, network, 0.9)
    torch.testing.assert_close(average.backbone[0].weight, before + 0.1)
