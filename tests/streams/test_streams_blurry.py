"""Blurry streams: the paper's counts, odd sizes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.streams.blurry import Blurry
from tests.helpers.stream_samples import cifar100, counts, numbered, train_sizes, used_once


def test_the_counts_of_b_cifar100():
    stream = Blurry().stream(cifar100())
    assert train_sizes(stream) == [5000] * 10
    assert used_once(stream)
    for task in range(10):
        own, head = range(5 * task, 5 * task + 5), range(50 + 5 * task, 55 + 5 * task)
        wanted = dict.fromkeys(range(50, 100), 10)
        wanted |= dict.fromkeys(own, 500) | dict.fromkeys(head, 410)
        assert stream.label_counts(task) == wanted
        assert stream.tasks[task].classes == (*own, *head)
        assert set(stream.dataset.y_test[stream.tasks[task].test]) == {*own, *head}
    assert sum(stream.steps(task, 32) for task in range(10)) == 1570


def test_the_counts_of_b_tinyimagenet():
    stream = Blurry().stream(numbered([500] * 200, [1] * 200))
    assert train_sizes(stream) == [10_000] * 10
    assert used_once(stream)
    for task in range(10):
        found = sorted(stream.label_counts(task).values())
        assert found == [10] * 90 + [410] * 10 + [500] * 10


def test_the_last_task_takes_the_remainders():
    """50 classes in 7 tasks: 7, 7, 7, 7, 7, 7, 8, in both parts."""
    stream = Blurry(tasks=7, minor=2).stream(numbered([20] * 100))
    for task in range(7):
        per_class = counts(stream, task)
        sizes = [7] * 6 + [8]
        assert (per_class[:50] == 20).sum() == sizes[task]
        assert (per_class[50:] == 20 - 6 * 2).sum() == sizes[task]
        assert (per_class[50:] == 2).sum() == 50 - sizes[task]
    assert used_once(stream)


def test_which_samples_are_minor_is_drawn_by_the_seed():
    dataset = cifar100()
    one, again, other = (Blurry().stream(dataset, seed) for seed in (3, 3, 4))
    assert [t.train.tolist() for t in one.tasks] == [t.train.tolist() for t in again.tasks]
    assert any(
        not np.array_equal(a.train, b.train) for a, b in zip(one.tasks, other.tasks, strict=True)
    )
    # the samples of one class in one foreign task are not the first ones of the data set
    y = dataset.y_train
    minor = [rows for rows in one.tasks[0].train.tolist() if y[rows] == 99]
    assert minor != np.flatnonzero(y == 99)[:10].tolist()


def test_order_by_seed_draws_the_parts():
    streams = [Blurry(class_order="seed").stream(cifar100(100), seed) for seed in (0, 1)]
    classes = [[task.classes for task in stream.tasks] for stream in streams]
    assert classes[0] != classes[1]
    for stream, tasks in zip(streams, classes, strict=True):
        assert sorted(c for task in tasks for c in task) == list(range(100))
        assert used_once(stream)


@given(
    sizes=st.lists(st.integers(0, 20), min_size=2, max_size=12),
    disjoint=st.integers(0, 100),
    minor=st.integers(0, 3),
    data=st.data(),
)
def test_any_classes_are_used_once(sizes, disjoint, minor, data):
    if not any(sizes):
        sizes[0] = 1
    n_disjoint = len(sizes) * disjoint // 100
    tasks = data.draw(st.integers(1, max(n_disjoint, len(sizes) - n_disjoint)))
    sizes = sizes[:n_disjoint] + [size + minor * tasks for size in sizes[n_disjoint:]]
    stream = Blurry(tasks=tasks, disjoint=disjoint, minor=minor).stream(numbered(sizes), 5)
    assert used_once(stream)
    assert sorted(c for task in stream.tasks for c in task.classes) == list(range(len(sizes)))
    table = np.array([counts(stream, task) for task in range(tasks)])
    for index in range(len(sizes)):
        home = next(k for k, task in enumerate(stream.tasks) if index in task.classes)
        away = np.delete(table[:, index], home).tolist()
        assert away == [0 if index < n_disjoint else minor] * (tasks - 1)


def test_more_minor_samples_than_there_are():
    dataset = numbered([500] * 3 + [47], classes=["a", "b", "c", "rare"])
    message = (
        r"class rare has 47 training samples.*2 tasks with 24 in each; minor can be at most 23"
    )
    with pytest.raises(InputError, match=message):
        Blurry(tasks=2, minor=24).stream(dataset)
    assert used_once(Blurry(tasks=2, minor=23).stream(dataset))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"disjoint": 101}, "disjoint is a percentage"),
        ({"disjoint": -1}, "disjoint is a percentage"),
        ({"minor": -1}, "minor must be 0 or more"),
        ({"tasks": 6}, "5 disjoint and 5 blurry classes make 1 to 5 tasks, got 6"),
        ({"tasks": -1}, "make 1 to 5 tasks"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(InputError, match=message):
        Blurry(**options).stream(numbered([100] * 10))
