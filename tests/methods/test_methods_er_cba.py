"""ER-CBA: an adaptor takes the bias in training and is left out of predictions."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream.composition import compose
from evenstream.errors import InputError
from evenstream.methods.er_cba import Adaptor, outer_loss
from evenstream.policies.retrieval import Retrieval
from tests.helpers.method_samples import EXACT, Group, assert_value, next_step, step_of
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


def worked_adaptor():
    adaptor = Adaptor(2, 2)
    with torch.no_grad():
        adaptor.inner.weight.copy_(torch.tensor([[1.0, -1], [-1, 1]]))
        adaptor.outer.weight.copy_(torch.eye(2) / 2)
    return adaptor


WEIGHT, BIAS = torch.tensor([[0.5], [-0.5]]), torch.zeros(2)
INNER = [
    (torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0])),
    (torch.tensor([[-1.0]]), torch.tensor([1])),
]
OUTER = (torch.tensor([[-1.5], [0.5]]), torch.tensor([1, 0]))


def test_er_cba_worked_gradient():
    adaptor = worked_adaptor()
    logits = [F.linear(x, WEIGHT) for x, _ in INNER]
    labels = [y for _, y in INNER]
    through = sum(F.cross_entropy(z + adaptor(z), y) for z, y in zip(logits, labels, strict=True))
    assert_value(through, 0.4284915)
    without = sum(F.cross_entropy(z, y) for z, y in zip(logits, labels, strict=True))
    assert_value(without, 0.5333565)
    loss = outer_loss(WEIGHT, BIAS, adaptor, INNER, OUTER, lr=0.1)
    assert_value(loss, 0.3203028)
    loss.backward()
    expected = torch.tensor([[0.0057234, -0.0017806], [-0.0057234, 0.0017806]])
    torch.testing.assert_close(adaptor.outer.weight.grad, expected, **EXACT)
    torch.testing.assert_close(adaptor.outer.bias.grad.abs(), torch.full((2,), 0.0058545), **EXACT)


def test_er_cba_outer_gradient_agrees_with_finite_differences():
    values = []
    for shift in (-0.01, 0.01):
        adaptor = worked_adaptor().double()
        with torch.no_grad():
            adaptor.outer.weight[0, 0] += shift
        inner = [(x.double(), y) for x, y in INNER]
        outer = (OUTER[0].double(), OUTER[1])
        values.append(
            float(outer_loss(WEIGHT.double(), BIAS.double(), adaptor, inner, outer, 0.1).detach())
        )
    assert (values[1] - values[0]) / 0.02 == pytest.approx(0.0057234, abs=1e-6)


def test_er_cba_features_are_constants_for_the_adaptor():
    """A graph through the extractor gives the adaptor the same gradient, to the bit."""
    torch.manual_seed(0)
    extractor, gradients = nn.Linear(3, 1), []
    x = [torch.randn(4, 3), torch.randn(2, 3), torch.randn(5, 3)]
    y = [torch.randint(2, (len(rows),)) for rows in x]
    for attached in (True, False):
        adaptor = worked_adaptor()
        features = [extractor(rows) for rows in x]
        if not attached:
            features = [f.detach() for f in features]
        groups = list(zip(features, y, strict=True))
        outer_loss(WEIGHT, BIAS, adaptor, groups[:2], groups[2], 0.1).backward()
        gradients.append([p.grad for p in adaptor.parameters()])
    assert all(map(torch.equal, *gradients))


def cba(**modules):
    method = compose("er-cba").method
    method.modules["adaptor"] = modules.get("adaptor", worked_adaptor())
    return method


def cba_step(*groups, number=1):
    step = step_of(*groups, number=number)
    step.memory = SimpleNamespace(class_counts=torch.zeros(0, dtype=torch.int64))
    return step


def test_er_cba_treats_the_correction_as_a_constant():
    incoming, replayed = Group([[1.0, 0.2], [0, 2]], [0, 0]), Group([[-1.0, 0.5]], [1])
    method = cba()
    method.loss(cba_step(incoming, replayed)).backward()
    assert all(p.grad is None for p in method.modules["adaptor"].parameters())
    for group in (incoming, replayed):
        with torch.no_grad():
            corrected = group.x + method.modules["adaptor"](group.x)
        expected = (corrected.softmax(1) - F.one_hot(group.y, 2)) / len(group)
        torch.testing.assert_close(group.x.grad, expected)


def test_er_cba_with_a_silent_adaptor_is_the_sum_of_two_means():
    silent = Adaptor(2, 4)
    nn.init.zeros_(silent.outer.weight)
    incoming, replayed = Group([[1.0, 0.2], [0, 2]], [0, 0]), Group([[-1.0, 0.5]], [1])
    loss = cba(adaptor=silent).loss(cba_step(incoming, replayed))
    expected = F.cross_entropy(incoming.x, incoming.y) + F.cross_entropy(replayed.x, replayed.y)
    assert torch.equal(loss, expected)


def test_er_cba_adaptor_is_as_published():
    """Hidden 256, Xavier-normal weights, zero biases; trained by Adam at its own rate."""
    learner = small("er-cba")
    learner.learn(*class_stream(1)[0])
    adaptor, optimizer = learner.method.adaptor, learner.method.optimizers["adaptor"]  # type: ignore[attr-defined]
    assert isinstance(optimizer, torch.optim.Adam) and optimizer.param_groups[0]["lr"] == 0.001
    for layer in (adaptor.inner, adaptor.outer):
        assert layer.bias.eq(0).all()
        law = (2 / (16 + 256)) ** 0.5
        assert float(layer.weight.detach().std()) == pytest.approx(law, rel=0.05)
    assert adaptor.inner.out_features == 256


def test_er_cba_adaptor_sees_probabilities_of_seen_classes_and_zeros():
    adaptor, logits = Adaptor(4, 8), torch.tensor([[2.0, -1], [0, 0.5]])
    padded = torch.cat([logits.softmax(1), torch.zeros(2, 2)], 1)
    expected = adaptor.outer(adaptor.inner(padded).relu())[:, :2]
    torch.testing.assert_close(adaptor(logits), expected)


def test_er_cba_outer_step_is_on_the_steps_own_rows_and_a_new_draw(monkeypatch):
    learner = feed(small("er-cba", nn.Flatten(), memory=40, lr=0.07), class_stream(9))
    step, asked = next_step(learner, *class_stream(10)[-1]), []
    step.groups = [step.incoming, step.retrieve()]

    def spied(*arguments):
        asked.append(arguments)
        return outer_loss(*arguments)

    monkeypatch.setattr("evenstream.methods.er_cba.outer_loss", spied)
    learner.method.outer_step(step)  # type: ignore[attr-defined]
    ((weight, _, _, inner, outer, lr, _),) = asked
    assert lr == 0.07 and torch.equal(weight, learner.network.head.weight)
    for (features, labels), rows in zip(inner, step.groups, strict=True):
        assert torch.equal(features, rows.x) and torch.equal(labels, rows.y)
    assert outer[0].shape == inner[1][0].shape and not torch.equal(outer[0], inner[1][0])
    stored = {tuple(row) for row in learner.memory.field("x").tolist()}
    assert {tuple(row) for row in outer[0].tolist()} <= stored


def adaptor_of(learner):
    adaptor = learner.method.modules.get("adaptor")
    return {} if adaptor is None else {k: v.clone() for k, v in adaptor.state_dict().items()}


def moves(learner, stream):
    """After which steps (from 1) the adaptor had moved."""
    found = []
    for x, labels in stream:
        before = adaptor_of(learner)
        learner.learn(x, labels)
        if before and not same(before, adaptor_of(learner)):
            found.append(learner.step)
    return found


def test_er_cba_adaptor_moves_only_in_the_outer_step_and_is_not_used_to_predict():
    learner = small("er-cba:period=4,adaptor_lr=0.01", memory=40)
    stream = class_stream(24)
    moved = moves(learner, stream)
    assert moved and all(step % 4 == 0 for step in moved)
    answer = learner.predict_proba(stream[0][0])
    with torch.no_grad():
        learner.method.modules["adaptor"].outer.bias.add_(torch.randn(16) * 100)
    assert np.array_equal(learner.predict_proba(stream[0][0]), answer)


def test_er_cba_starts_once_the_memory_holds_a_class_that_is_not_in_the_batch():
    learner = small("er-cba:period=1", memory=40)
    x, _ = blobs(4)
    stream = [(x, [0, 1, 0, 1]), (x, [0, 1, 1, 1]), (x, [2, 2, 3, 3])]
    assert moves(learner, stream) == [3]
    # once begun it goes on, also when a batch has every class
    assert moves(learner, [(x, [0, 1, 2, 3])]) == [4]


def test_er_cba_may_start_because_of_a_class_that_was_not_replayed():
    class Fourth(Retrieval):
        def pick(self, step, count):
            return step.fetch(torch.tensor([3])[: len(step.memory)])

    learner = small("er-cba:period=1", memory=40, retrieval=Fourth())
    x, _ = blobs(4)
    learner.learn(x, [0, 0, 0, 1])
    assert moves(learner, [(x, [1, 1, 1, 1])]) == [2]


def test_er_cba_can_start_with_the_second_task():
    learner = small("er-cba:start=second-task,period=1", memory=40)
    with pytest.raises(InputError, match="needs task boundaries"):
        learner.learn(*class_stream(1)[0])
    stream = class_stream(8, classes=8)  # four pairs of classes, two in each task
    learner.start_task()
    assert moves(learner, stream[:4]) == []
    learner.end_task()
    learner.start_task()
    assert moves(learner, stream[4:]) == [5, 6, 7, 8]


def test_er_cba_outer_step_leaves_the_network_alone():
    learner = feed(small("er-cba", Noisy(), memory=40), class_stream(9))
    step = next_step(learner, *class_stream(10)[-1])
    step.groups = [step.incoming, step.retrieve()]
    before, omega = parameters(learner), adaptor_of(learner)
    learner.method.outer_step(step)  # type: ignore[attr-defined]
    assert same(parameters(learner), before) and not same(adaptor_of(learner), omega)


@pytest.mark.parametrize("options", [{}, {"scope": "all", "head_size": 20}])
def test_er_cba_adaptor_grows_and_keeps_its_corner(options):
    learner = small("er-cba", **options)
    x = np.random.default_rng(0).normal(size=(16, DIM))
    learner.learn(x, list(range(16)))
    width = learner.method.adaptor.inner.in_features  # type: ignore[attr-defined]
    assert width == (32 if options else 16)
    corner = learner.method.adaptor.inner.weight.detach().clone()  # type: ignore[attr-defined]
    learner.learn(x, list(range(20, 36)))
    learner.learn(x, list(range(36, 52)))
    assert learner.method.adaptor.inner.weight.shape == (256, 64)  # type: ignore[attr-defined]
    assert torch.equal(learner.method.adaptor.inner.weight[:, :width], corner)  # type: ignore[attr-defined]
