"""LUCIR as published: margins, imprinted rows, a frozen old head, features with a sign."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.core.outputs import plain_outputs
from evenstream.methods.lucir import adaptation
from evenstream.methods.lucir_full import LUCIRFull, imprinted, margin_ranking
from evenstream.networks.resnet import ResNet
from tests.helpers.method_samples import Group, assert_value, fixed_teacher, step_of
from tests.helpers.small_streams import Noisy, images, parameters, small
from tests.helpers.task_samples import after_tasks, task_data, train

OPTIMIZERS = [
    {"momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "adam", "lr": 0.01},
    {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
]
COSINES = torch.tensor(
    [[0.6, 0.1, 0.4, 0.3, -0.2], [0.2, 0.9, 0.8, 0.1, 0], [0.1, 0.2, 0.3, 0.9, 0]]
)


def test_the_worked_margins():
    y = torch.tensor([0, 1, 3])
    assert_value(margin_ranking(COSINES[:2], y[:2], 2, 2, 0.5), 0.225)
    assert_value(margin_ranking(COSINES, y, 2, 2, 0.5), 0.225)  # a row of a new class is ignored
    assert_value(margin_ranking(COSINES, y, 2, 7, 0.5), (0.3 + 0.2 + 0.4) / 6)  # three rivals
    assert float(margin_ranking(COSINES[2:], y[2:], 2, 2, 0.5)) == 0
    assert float(margin_ranking(COSINES[:2, :2], y[:2], 2, 2, 0.5)) == 0


def test_adaptive_weights_of_five_tasks():
    found = [5 * adaptation(2 * t, 2) for t in range(1, 5)]
    np.testing.assert_allclose(found, [5, 7.0711, 8.6603, 10], atol=1e-4)
    assert adaptation(20, 0) == math.sqrt(20)


def test_imprinted_rows_have_the_mean_direction_and_the_mean_length():
    features, old = torch.randn(30, 4), torch.randn(5, 4)
    y = torch.arange(30) % 3
    rows = imprinted(features, y, old)
    torch.testing.assert_close(rows.norm(dim=1), old.norm(dim=1).mean().expand(3))
    for c in range(3):
        direction = torch.stack([f / f.norm() for f in features[y == c]]).mean(0)
        torch.testing.assert_close(F.cosine_similarity(rows[c], direction, 0), torch.tensor(1.0))


def test_new_classes_are_imprinted_before_the_first_step():
    learner = after_tasks("lucir-full", tasks=1, model=Noisy())
    data = task_data(1)
    learner.start_task(data=data)
    weight = learner.network.head.weight.detach()
    torch.testing.assert_close(weight[2:].norm(dim=1), weight[:2].norm(dim=1).mean().expand(2))
    own = torch.tensor(data[0])[[label == learner.labels[3] for label in data[1]]]
    mean = F.normalize(plain_outputs(learner, own)[0], dim=1).mean(0)
    torch.testing.assert_close(F.cosine_similarity(weight[3], mean, 0), torch.tensor(1.0))


def test_a_refused_task_leaves_no_imprint(monkeypatch):
    learner = after_tasks("lucir-full", tasks=1, model=Noisy(), head_size=6)
    before = learner.fingerprint()
    monkeypatch.setattr(learner.method, "on_epoch_start", lambda learner: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        learner.start_task(data=task_data(1))
    assert learner.fingerprint() == before


@pytest.mark.parametrize("options", OPTIMIZERS, ids=lambda options: str(len(options)))
def test_old_rows_of_the_head_are_frozen_bit_for_bit(options):
    learner = after_tasks("lucir-full", tasks=1, model=Noisy(), **options)
    frozen = learner.network.head.weight.detach().clone()
    scale = learner.network.head.scale.item()
    train(learner, task_data(1))
    learner.end_task(task_data(1))
    weight = learner.network.head.weight.detach()
    assert torch.equal(weight[:2], frozen) and len(weight) == 4
    assert learner.network.head.scale.item() != scale
    frozen = weight.clone()
    train(learner, task_data(2))
    assert torch.equal(learner.network.head.weight[:4], frozen)


def test_fine_tuning_lucirs_head_leaves_the_features():
    learner = after_tasks("lucir-full:fine_tune_epochs=2", tasks=1, model=Noisy())
    train(learner, task_data(1))
    before = parameters(learner)
    learner.end_task(task_data(1))
    after = parameters(learner)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight", "head.scale"}


def test_lucirs_loss_does_not_depend_on_the_features_length():
    learner = after_tasks("lucir-full", tasks=1, model=nn.Identity())
    learner.start_task(data=task_data(1))
    x = torch.tensor(task_data(1)[0])
    y = torch.tensor([0, 1, 2, 3] * 5)

    def value(scale, sigma=None):
        with torch.no_grad():
            if sigma is not None:
                learner.network.head.scale.fill_(sigma)
            group = Group((scale * x).tolist(), y.tolist())
            step = step_of(group, network=learner.network)
            step.forward = lambda x: (x, learner.network.logits(x))
            step.n_classes = 4
            loss = learner.method.loss(step)
            return float(loss), float(loss - F.cross_entropy(learner.network.logits(group.x), y))

    small_one, large_one = value(1.0), value(7.0)
    assert small_one == pytest.approx(large_one, rel=1e-5)
    other = value(1.0, sigma=9.0)
    assert other[0] != pytest.approx(small_one[0], rel=1e-2)
    assert other[1] == pytest.approx(small_one[1], rel=1e-4)  # the scale is cross-entropy's only
    assert other[1] > 0.1


def test_the_loss_of_lucir_in_the_second_task():
    """CE + 5·√(old/new)·(1 - cos) + ranking; of six rows of the head, five have a class."""
    draw = torch.Generator().manual_seed(0)
    features, old_features, logits = (torch.randn(4, n, generator=draw) for n in (3, 3, 5))
    head = torch.randn(6, 3, generator=draw)
    y, known, seen = [3, 0, 1, 4], 2, 5
    method = LUCIRFull()
    method.teacher = fixed_teacher(torch.zeros(4, known), old_features)
    step = step_of(
        Group(features[:1].tolist(), y[:1]),
        Group(features[1:].tolist(), y[1:]),
        network=SimpleNamespace(head=SimpleNamespace(weight=head)),
        forward=lambda x: (x, logits),
    )
    step.n_classes = seen

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm()))

    moved = np.mean([1 - cosine(a, b) for a, b in zip(old_features, features, strict=True)])
    ranking = []
    for row, label in zip(features, y, strict=True):
        if label < known:
            rivals = sorted(cosine(row, head[k]) for k in range(known, seen))[-2:]
            ranking += [max(0, 0.5 - cosine(row, head[label]) + rival) for rival in rivals]
    assert moved > 0.1 and np.mean(ranking) > 0.1
    expected = F.cross_entropy(logits, torch.tensor(y)).item()
    expected += 5 * math.sqrt(2 / 3) * moved + np.mean(ranking)
    assert method.loss(step).item() == pytest.approx(expected, rel=1e-5)


def test_the_last_relu_is_off_for_lucir_only_and_stays_off(tmp_path):
    x, y = images(12, side=8), [0, 1] * 6
    for method, signed in (("lucir-full", True), ("e2e", False)):
        learner = small(method, ResNet((1, 8, 8), (1, 1, 1, 1), width=8), batch=6)
        learner.start_task(data=(x, y))
        learner.learn(x, y)
        learner.end_task((x, y))
        features, _ = plain_outputs(learner, torch.tensor(x))
        assert bool((features < 0).any()) == signed
        learner.save(tmp_path / method)
        loaded = Learner.load(tmp_path / method, ResNet((1, 8, 8), (1, 1, 1, 1), width=8))
        assert np.array_equal(loaded.scores(x), learner.scores(x))
        taught, _ = loaded.method.teacher.outputs(loaded.preprocess.plain(torch.tensor(x)))
        assert torch.equal(taught, features)
