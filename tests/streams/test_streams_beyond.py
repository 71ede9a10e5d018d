"""Long-tailed, gradual and recurring streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.gradual import Gradual
from evenstream.streams.long_tailed import LongTailed
from evenstream.streams.recurring import Recurring
from tests.helpers.stream_samples import cifar100, counts, numbered, train_sizes, used_once

SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any)


# ---- long-tailed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "per_class", "total"), [(100, 500, 10_847), (10, 5000, 12_406)]
)
def test_long_tailed_cifar(classes, per_class, total):
    """The totals of CIFAR-100-LT and CIFAR-10-LT in the long-tail literature."""
    dataset = numbered([per_class] * classes, [10] * classes)
    stream = LongTailed().stream(dataset)
    kept = np.bincount(dataset.y_train[stream.order()])
    assert kept.sum() == total
    assert (kept[0], kept[-1]) == (per_class, per_class // 100)
    assert (np.diff(kept) <= 0).all()
    assert len(set(stream.order().tolist())) == total  # each at most once
    plain = ClassIncremental().stream(dataset)
    for task, whole in zip(stream.tasks, plain.tasks, strict=True):
        assert task.classes == whole.classes
        assert np.array_equal(task.test, whole.test)
        assert set(task.train) <= set(whole.train)


def test_rare_classes_by_seed():
    dataset = numbered([50] * 8)
    kept = [
        np.bincount(dataset.y_train[LongTailed(rare="seed").stream(dataset, seed).order()]).tolist()
        for seed in (1, 1, 2)
    ]
    assert kept[0] == kept[1] != kept[2]
    assert sorted(kept[0], reverse=True) == [50, 25, 13, 6, 3, 1, 1, 1]
    assert kept[0] != sorted(kept[0], reverse=True)


@given(sizes=SIZES, imbalance=st.floats(0.001, 1), seed=st.integers(0, 99))
def test_no_class_grows_or_dies_out(sizes, imbalance, seed):
    dataset = numbered(sizes)
    stream = LongTailed(imbalance=imbalance).stream(dataset, seed)
    kept = np.bincount(dataset.y_train[stream.order()], minlength=len(sizes))
    assert (kept <= sizes).all()
    assert ((kept > 0) == (np.array(sizes) > 0)).all()
    assert LongTailed(imbalance=1).stream(dataset, seed).order().size == sum(sizes)


@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan")])
def test_impossible_imbalances(value):
    with pytest.raises(InputError, match=r"imbalance must (lie above 0|be a number)"):
        LongTailed(imbalance=value)


# ---- gradual ---------------------------------------------------------------------------------


def weights(scenario, time, n_groups):
    return np.stack([scenario.weight(time, group, n_groups) for group in range(n_groups)])


@given(
    width=st.floats(0.01, 1),
    blend=st.sampled_from(["linear", "sigmoid"]),
    groups=st.integers(1, 6),
)
def test_weights_sum_to_one(width, blend, groups):
    time = np.linspace(0, groups, 101)
    found = weights(Gradual(width=width, blend=blend), time, groups)
    assert found.shape == (groups, 101)
    assert found.sum(axis=0) == pytest.approx(1)
    assert (found >= 0).all()


def test_weights_in_a_transition():
    time = np.array([0.5, 0.75, 0.875, 1, 1.125, 1.25, 1.5])
    linear = weights(Gradual(width=0.5), time, 2)
    assert linear[1] == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1, 1])
    sigmoid = weights(Gradual(width=0.5, blend="sigmoid"), time, 2)
    assert sigmoid[1] == pytest.approx([0.0003, 0.018, 0.119, 0.5, 0.881, 0.982, 0.9997], abs=1e-3)


@pytest.mark.parametrize("blend", ["linear", "sigmoid"])
def test_classes_follow_the_weights(blend):
    """Shares in short stretches of the stream, against the weights at their middles."""
    stream = Gradual(tasks=4, width=0.8, blend=blend).stream(numbered([20_000] * 4, [1] * 4), 7)
    assert used_once(stream)
    labels = stream.dataset.y_train[stream.order()].reshape(40, 2000)
    shares = np.stack([(labels == group).mean(axis=1) for group in range(4)])
    middles = (np.arange(40) + 0.5) / 10
    expected = weights(Gradual(width=0.8, blend=blend), middles, 4)
    assert np.abs(shares - expected).max() < 0.06  # five standard deviations of 0.011


def test_gradual_streams_have_stages_but_no_boundaries():
    stream = Gradual(tasks=5).stream(cifar100(20, 5), 1)
    assert not stream.boundaries
    assert used_once(stream)
    assert sum(train_sizes(stream)) == 2000
    assert np.array_equal(stream.order(), np.concatenate([task.train for task in stream.tasks]))
    for number, task in enumerate(stream.tasks):
        assert task.classes == tuple(range(20 * number, 20 * number + 20))
        own = counts(stream, number)[list(task.classes)].sum()
        assert 0.6 < own / len(task.train) < 1
    # the first and the last stage blend on one side only
    assert counts(stream, 0)[40:].sum() == counts(stream, 4)[:60].sum() == 0


@given(sizes=SIZES, seed=st.integers(0, 99), data=st.data())
def test_gradual_streams_use_each_sample_once(sizes, seed, data):
    tasks = data.draw(st.integers(1, len(sizes)))
    blend = data.draw(st.sampled_from(["linear", "sigmoid"]))
    scenario = Gradual(tasks=tasks, width=data.draw(st.floats(0.01, 1)), blend=blend)
    stream = scenario.stream(numbered(sizes), seed)
    assert used_once(stream)
    assert len(stream) == tasks
    again, other = (scenario.stream(stream.dataset, s) for s in (seed, seed + 1))
    assert np.array_equal(stream.order(), again.order())
    assert sum(sizes) < 10 or not np.array_equal(stream.order(), other.order())


@pytest.mark.parametrize("width", [0, -0.5, 1.01, float("nan")])
def test_impossible_widths(width):
    with pytest.raises(InputError, match=r"width must (lie above 0|be a number)"):
        Gradual(width=width)


def test_boundaries_cannot_be_asked_for():
    with pytest.raises(InputError, match="a gradual stream has no boundaries"):
        Gradual(boundaries=True)


# ---- recurring -------------------------------------------------------------------------------


def test_groups_come_back_with_new_samples():
    stream = Recurring(tasks=2, rounds=3).stream(numbered([9, 6, 3, 7]), 1)
    assert not stream.boundaries
    assert [task.classes for task in stream.tasks] == [(0, 1), (2, 3)] * 3
    table = np.array([counts(stream, task) for task in range(6)])
    assert table.tolist() == [
        [3, 2, 0, 0], [0, 0, 1, 3],
        [3, 2, 0, 0], [0, 0, 1, 2],
        [3, 2, 0, 0], [0, 0, 1, 2],
    ]  # fmt: skip
    assert used_once(stream)
    assert np.array_equal(stream.tasks[0].test, stream.tasks[4].test)
    assert Recurring(boundaries=True).stream(stream.dataset).boundaries


@given(sizes=SIZES, rounds=st.integers(1, 5), seed=st.integers(0, 99))
def test_recurring_streams_use_each_sample_once(sizes, rounds, seed):
    scenario = Recurring(rounds=rounds, class_order="seed")
    stream = scenario.stream(numbered(sizes), seed)
    assert used_once(stream)
    assert len(stream) == rounds * max(1, len(sizes) // 2)
    table = np.array([counts(stream, task) for task in range(len(stream))])
    for index in range(len(sizes)):
        visits = [k for k, task in enumerate(stream.tasks) if index in task.classes]
        shares = table[visits, index]
        assert len(visits) == rounds
        assert shares.max() - shares.min() <= 1
    assert np.array_equal(stream.order(), scenario.stream(stream.dataset, seed).order())


def test_impossible_rounds():
    with pytest.raises(InputError, match="rounds must be 1 or more"):
        Recurring(rounds=0)
