"""Retrieval, update, inference and criterion of a method's own, or swapped by its name."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream.core.memory import X, Y
from evenstream.errors import InputError
from evenstream.methods import Method, register
from evenstream.methods.er import ER
from evenstream.policies.retrieval import Retrieval, Uniform
from evenstream.policies.rules import InferenceRule
from evenstream.policies.storing import Placement, Storing
from tests.helpers.own_methods import named
from tests.helpers.small_streams import (
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    refused,
    same,
    small,
)


class Hardest(Retrieval):
    """Scores twice as many candidates and hands on the views it scored."""

    def pick(self, step, count):
        candidates = Uniform().pick(step, 2 * count)
        if not len(candidates):
            return candidates
        with torch.no_grad():
            losses = F.cross_entropy(step.net(candidates.x), candidates.y, reduction="none")
        self.scored = candidates.x
        self.order = losses.argsort(descending=True)[:count]
        return candidates.take(self.order)


@named
@dataclass
class Picky(ER):
    def make_retrieval(self):
        return Hardest()

    def loss(self, step):
        self.trained, _ = step.joint()
        return super().loss(step)


def test_retrieval_hands_on_the_views_it_scored():
    learner = small(Picky(), "mlp", augment="crop1+flip", memory=8, replay_batch=2)
    for seed in range(4):
        result = learner.learn(images(3, seed=seed), [0, 1, 2])
    method = learner.method
    assert result.rows == 5 and len(method.retrieval.scored) == 4  # type: ignore[attr-defined]
    assert torch.equal(method.trained[3:], method.retrieval.scored[method.retrieval.order])  # type: ignore[attr-defined]


class Ring(Storing):
    """First in, first out, with the step at which a row came."""

    def place(self, step, rows):
        memory = step.memory
        slots = torch.arange(memory.seen, memory.seen + len(rows)) % memory.capacity
        memory.seen += len(rows)
        return Placement(slots, torch.arange(len(rows)), {"loss": rows.y.float() + 0.5})


@named
@dataclass
class FirstInFirstOut(ER):
    def make_storing(self):
        return Ring()


def test_an_update_rule_places_rows_and_fields():
    learner = small(FirstInFirstOut(), memory=4)
    x, _ = blobs(6)
    learner.learn(x[:3], ["a", "b", "c"])
    learner.learn(x[3:], ["a", "b", "b"])
    expected = torch.from_numpy(x[[4, 5, 2, 3]])
    assert torch.equal(learner.memory.field(X), expected)
    assert learner.memory.field("loss").tolist() == [1.5, 1.5, 2.5, 0.5]
    assert learner.memory.class_counts.tolist() == [1, 2, 1]


class NearestMean(InferenceRule):
    """Nearest class mean over the memory; counts how often it prepares."""

    prepared = 0

    def prepare(self, model):
        NearestMean.prepared += 1
        features = model.network.features(model.preprocess.plain(model.memory.field(X)))
        labels = model.memory.field(Y)
        return torch.stack([features[labels == c].mean(0) for c in labels.unique()])

    def scores(self, outputs, prepared):
        assert outputs.x.shape[0] == outputs.features.shape[0] == outputs.logits.shape[0]
        return -torch.cdist(outputs.features, prepared)


@named
@dataclass
class ByMeans(ER):
    def make_rule(self):
        return NearestMean()


def test_an_inference_rule_prepares_once_and_changes_nothing(monkeypatch):
    monkeypatch.setattr("evenstream.core.outputs.PREDICT_BATCH", 4)
    learner = small(ByMeans(), nn.Flatten(), memory=100)
    x, y = blobs(30, classes=3)
    learner.learn(x, y)
    before, NearestMean.prepared = learner.fingerprint(), 0
    predicted = learner.predict(x)
    assert NearestMean.prepared == 1 and learner.fingerprint() == before
    means = {c: x[np.array(y) == c].mean(0) for c in set(y)}
    expected = [min(means, key=lambda c: np.linalg.norm(row - means[c])) for row in x]
    assert predicted.tolist() == expected
    # and the accuracy of a step is that of the rule
    assert learner.learn(x, expected).accuracy == 1.0


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("fine-tune@ncm", {}, "fine-tune uses none"),
        ("fine-tune@rescaled", {}, "fine-tune uses none"),
        ("lwf@rescaled", {"memory": 0}, "memory=0"),
        ("er@bias-corrected", {"memory": 0}, "memory=0"),
        ("er@ema:decay=1", {}, "decay must lie in 0..0.99"),
        ("lwf:averaging=1", {}, "averaging must lie"),
    ],
)
def test_parts_that_would_do_nothing_are_refused(spec, options, message):
    with pytest.raises(InputError, match=message):
        small(spec, **options)


@dataclass
class Weighted(Method):
    """A method with two cross-entropy terms that knows nothing of adjustment."""

    def loss(self, step):
        incoming = step.ce(step.net(step.incoming.x), step.incoming.y)
        replayed = step.groups[1]
        if not len(replayed):
            return incoming
        rows = step.ce(step.net(replayed.x), replayed.y, "none")
        return incoming + rows.mean()


def test_las_swaps_the_criterion_of_any_method():
    register("weighted")(Weighted)
    stream = class_stream()
    plain, zero, one = (
        feed(small(name, memory=8), stream)
        for name in ("weighted", "weighted-las:tau=0", "weighted-las")
    )
    assert same(parameters(plain), parameters(zero))
    assert not same(parameters(plain), parameters(one))
    counts = one.criterion.prior.weights()  # type: ignore[attr-defined]  # both terms' rows, observed once
    assert counts.sum().item() == 4 + 4


def test_a_label_that_was_not_declared_is_an_error_not_an_infinite_loss():
    @dataclass
    class Sly(ER):
        """Scores replayed rows that it did not declare as training rows."""

        def training_rows(self, step):
            step.notes["hidden"] = step.retrieve()
            return [step.incoming]

        def loss(self, step):
            hidden = step.notes["hidden"]
            loss = super().loss(step)
            return loss + step.ce(step.net(hidden.x), hidden.y) if len(hidden) else loss

    register("sly")(Sly)
    learner = small("sly-las")
    learner.learn(blobs(4)[0], ["a", "b", "c", "d"])
    refused(learner, lambda: learner.learn(blobs(2)[0], ["e", "f"]), InputError, "observe")
