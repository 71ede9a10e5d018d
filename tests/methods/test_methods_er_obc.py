"""ER-OBC: the head is corrected on a balanced draw after every step."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.core.memory import Y
from evenstream.errors import NonFiniteLoss
from tests.helpers.method_samples import EXACT, assert_value, next_step, normed
from tests.helpers.small_streams import (
    Bomb,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    same,
    small,
)


def body_of(weights):
    return {name: value for name, value in weights.items() if name.startswith("backbone")}


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam"}])
def test_er_obc_without_weight_is_er(options):
    plain, zero = (
        feed(small(m, model=normed(), **options), class_stream(8))
        for m in ("er", "er-obc:correction_weight=0")
    )
    assert same(parameters(plain), parameters(zero))


def test_er_obc_moves_the_head_twice_and_the_extractor_once():
    corrected, reference = small("er-obc", model=normed()), small("er", model=normed())
    for x, labels in class_stream(2):
        corrected.learn(x, labels)
        reference.learn(x, labels)
    one, two = parameters(corrected), parameters(reference)
    assert same(body_of(one), body_of(two))
    assert not torch.equal(one["head.weight"], two["head.weight"])


def test_er_obc_updates_the_head_twice_from_the_second_step_on():
    learner, updates = small("er-obc"), []

    update = learner.update

    def counted(loss, *groups, **options):
        updates[-1].append(groups)
        return update(loss, *groups, **options)

    learner.update = counted
    for x, labels in class_stream(3):
        updates.append([])
        learner.learn(x, labels)
    assert updates == [[("network",)], [("network",), ("head",)], [("network",), ("head",)]]


def with_worked_head(spec):
    """Features are inputs; the memory holds the two samples; head W = I, b = 0."""
    learner = small(spec, nn.Flatten(), memory=2, replay_batch=2, lr=0.03)
    x = np.array([[1.0, 2], [0.5, 0]], dtype=np.float32)
    learner.learn(x, ["a", "b"])
    with torch.no_grad():
        learner.network.head.weight.copy_(torch.eye(2))
        learner.network.head.bias.zero_()
    return learner, next_step(learner, x, ["a", "b"])


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_er_obc_worked_example(mode):
    learner, step = with_worked_head(f"er-obc:correction_mode={mode}")
    x, y, head = step.incoming.raw, step.incoming.y, learner.network.head
    assert_value(F.cross_entropy(head(x), y), 1.1436693)
    learner.method.after_step(step)
    expected = torch.tensor([[1.0062974, 0.0219318], [-0.0062974, 0.9780682]])
    torch.testing.assert_close(head.weight.detach(), expected, **EXACT)
    torch.testing.assert_close(head.bias.detach().abs(), torch.full((2,), 0.0016290), **EXACT)
    assert_value(F.cross_entropy(head(x), y), 1.1093228)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam"}])
def test_er_obc_correction_does_not_touch_the_extractor(mode, options):
    learner = feed(small(f"er-obc:correction_mode={mode}", normed(), **options), class_stream(6))
    before = parameters(learner)
    learner.method.after_step(next_step(learner, *class_stream(7)[-1]))
    after = parameters(learner)
    assert same(body_of(before), body_of(after))
    assert not torch.equal(before["head.weight"], after["head.weight"])


def test_er_obc_correction_modes_differ_with_batchnorm():
    one, two = (
        feed(small(f"er-obc:correction_mode={mode}", normed()), class_stream(6))
        for mode in ("train", "eval")
    )
    assert not same(parameters(one), parameters(two))


def drawn_in_correction(learner, step):
    fetched, fetch = [], step.fetch

    def spied(slots):
        fetched.append(slots)
        return fetch(slots)

    step.fetch = spied
    learner.method.after_step(step)
    return learner.memory.field(Y)[fetched[0]]


def test_er_obc_draws_as_many_rows_as_asked_evenly_if_asked():
    x, y = blobs(40, classes=2)
    labels = ["rare" if index < 2 else f"class {value}" for index, value in enumerate(y)]
    for spec, size, spread in (
        ("er-obc", 4, None),
        ("er-obc:correction_batch=9", 9, None),
        ("er-obc:correction_draw=balanced,correction_batch=9", 9, 0),
    ):
        learner = small(spec, memory=40)
        learner.learn(x, labels)
        drawn = drawn_in_correction(learner, next_step(learner, x[:2], labels[:2]))
        counts = torch.bincount(drawn, minlength=3)
        assert len(drawn) == size
        if spread is not None:
            assert counts.max() - counts.min() == spread


def test_er_obc_correction_is_a_draw_of_its_own_in_fresh_views():
    learner = small("er-obc", augment="crop1+flip", memory=12, replay_batch=4)
    learner.learn(images(12), [0, 1, 2] * 4)
    views, draws = [], []
    for _ in range(4):
        step = next_step(learner, images(2, seed=1), [0, 1])
        replayed, fetch, features = step.retrieve().slots, step.fetch, step.network.features

        def spied(slots, fetch=fetch):
            draws.append(slots)
            return fetch(slots)

        def seen(x, features=features):
            views.append(x)
            return features(x)

        step.fetch, step.network.features = spied, seen
        learner.method.after_step(step)
        step.network.features = features
        draws[-1] = (set(replayed.tolist()), draws[-1])
    assert any(first != set(second.tolist()) for first, second in draws)
    assert all(len(set(second.tolist())) == 4 for _, second in draws)
    raw = learner.memory.field("x")
    plain = [learner.preprocess.plain(raw[slots]) for _, slots in draws]
    assert not any(map(torch.equal, views, plain))


SURROGATE = "er-obc:surrogate_head=true"


def test_er_obc_with_a_surrogate_head_teaches_the_real_one_by_the_correction_only():
    learner, idle = small(SURROGATE), small("fine-tune", lr=0.0)
    first, second, *_ = class_stream()
    learner.learn(*first)
    idle.learn(*first)
    one, two = parameters(learner), parameters(idle)
    assert torch.equal(one["head.weight"], two["head.weight"])  # no correction at the first step
    assert not same(body_of(one), body_of(two))  # but the extractor learns
    learner.learn(*second)
    assert not torch.equal(parameters(learner)["head.weight"], one["head.weight"])
    surrogate = learner.method.modules["surrogate"]
    assert surrogate.out_features == 2
    assert not torch.equal(surrogate.weight, learner.network.head.weight)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}])
def test_er_obc_surrogate_head_grows_resumes_and_is_undone(tmp_path, options):
    stream = class_stream(12, classes=6)
    whole = feed(small(SURROGATE, Bomb(), **options), stream)
    part = feed(small(SURROGATE, Bomb(), **options), stream[:5])
    state, model = part.fingerprint(), part.model
    model.armed = True
    with pytest.raises(NonFiniteLoss):
        part.learn(stream[0][0], ["new", "newer", "class 0", "class 1"])
    model.armed = False
    assert part.fingerprint() == state
    part.save(tmp_path)
    rest = feed(Learner.load(tmp_path, Bomb()), stream[5:])
    assert rest.fingerprint() == whole.fingerprint() == feed(part, stream[5:]).fingerprint()
