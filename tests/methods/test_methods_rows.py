"""Which rows a method trains on, observes and stores, and what it sees of a step."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from evenstream.core.memory import X, Y
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.methods import Method
from evenstream.methods.er import ER
from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
from tests.helpers.own_methods import named
from tests.helpers.small_streams import (
    DIM,
    blobs,
    class_stream,
    feed,
    parameters,
    refused,
    same,
    small,
)


def test_no_loss_no_update():
    @named
    @dataclass
    class Idle(Method):
        def loss(self, step):
            return None

    learner = small(Idle())
    result = learner.learn(*blobs(4))
    before = parameters(learner)
    result = learner.learn(*blobs(4, seed=1))
    assert result.loss is None and result.step == 2 and result.rows == 8
    assert 0 <= result.accuracy <= 1
    assert same(parameters(learner), before)
    assert len(learner.memory) == 8  # storing goes on


@named
@dataclass
class EveryOther(ER):
    """Trains on and stores every other incoming row, with a field of its own."""

    def training_rows(self, step):
        step.notes["chosen"] = torch.arange(0, len(step.incoming), 2)
        return [step.incoming.take(step.notes["chosen"]), step.retrieve(2)]

    def loss(self, step):
        step.remember(position=torch.arange(len(step.incoming)))
        return super().loss(step)

    def stored_rows(self, step):
        return step.notes["chosen"]


@pytest.mark.parametrize("adjusted", [False, True])
def test_chosen_rows_are_trained_observed_and_stored(adjusted):
    criterion = LogitAdjustedSoftmax(window=1) if adjusted else CrossEntropy()
    learner = small(EveryOther(), criterion=criterion, memory=20)
    x, _ = blobs(5)
    assert learner.learn(x, ["a", "b", "c", "b", "a"]).rows == 3
    if adjusted:
        assert learner.criterion.prior.weights().tolist() == [2, 0, 1]  # type: ignore[attr-defined]  # "b" was not trained on
    assert torch.equal(learner.memory.field(X), torch.from_numpy(x[::2]))
    assert learner.memory.field(Y).tolist() == [0, 2, 0]
    assert learner.memory.field("position").tolist() == [0, 2, 4]
    assert learner.memory.seen == 3
    assert learner.learn(x[:4], ["a", "b", "c", "b"]).rows == 4
    assert learner.memory.field("position").tolist() == [0, 2, 4, 0, 2]


@named
@dataclass
class MemoryOnly(Method):
    """Takes in the batch first, then trains from memory alone."""

    memory_first = True
    needs = frozenset({"memory"})
    explode = False

    def training_rows(self, step):
        return [step.retrieve(3)]

    def loss(self, step):
        x, y = step.joint()
        return step.ce(step.net(x), y) * (float("nan") if self.explode else 1)


def test_memory_first():
    learner = small(MemoryOnly(), memory=6)
    x, y = blobs(4)
    result = learner.learn(x, y)
    assert result.rows == 3 and result.loss is not None and len(learner.memory) == 4
    learner.learn(*blobs(4, seed=1))
    assert learner.memory.seen == 8


def test_accuracy_of_incoming_rows_that_were_not_trained_on():
    learner = small(MemoryOnly(), memory=6)
    for seed in range(6):
        x, y = blobs(5, classes=2, seed=seed)
        labels = ["ab"[value] for value in y]
        known = learner.labels
        guess = learner.predict(x) if known else []
        expected = np.mean([g == t for g, t in zip(guess, labels, strict=True)]) if known else 0
        assert learner.learn(x, labels).accuracy == pytest.approx(expected)


def test_memory_first_is_undone():
    learner = feed(small(MemoryOnly(), "mlp", memory=6, momentum=0.9), class_stream()[:4])
    learner.method.explode = True  # type: ignore[attr-defined]
    x, _ = blobs(4)
    refused(learner, lambda: learner.learn(x, ["new", "class 0", "x", "y"]), NonFiniteLoss)
    learner.method.explode = False  # type: ignore[attr-defined]
    twin = feed(small(MemoryOnly(), "mlp", memory=6, momentum=0.9), class_stream()[:4])
    assert learner.learn(x, ["a"] * 4) == twin.learn(x, ["a"] * 4)
    assert learner.fingerprint() == twin.fingerprint()


def test_a_method_that_trains_from_memory_needs_one():
    with pytest.raises(InputError, match="memory=0"):
        small(MemoryOnly(), memory=0)


def test_step_attributes():
    seen = {}

    @named
    @dataclass
    class Look(ER):
        def loss(self, step):
            seen.update(
                batch=step.batch, replay_batch=step.replay_batch, lr=step.lr, known=step.known
            )
            seen["views"] = [step.incoming.x is step.incoming.x, step.incoming.view().shape]
            seen["plain"] = torch.equal(step.incoming.plain(), step.incoming.raw)
            seen["slots"] = (step.incoming.slots, step.groups[1].slots.tolist())
            return super().loss(step)

    learner = small(Look(), batch=7, replay_batch=3, lr=0.25)
    learner.learn(*blobs(2))
    learner.learn(*blobs(2))
    assert (seen["batch"], seen["replay_batch"], seen["lr"]) == (7, 3, 0.25)
    assert seen["views"] == [True, (2, DIM)] and seen["plain"]
    assert seen["slots"][0] is None and sorted(seen["slots"][1]) == [0, 1]
