"""Class-incremental streams: counts, orders, and every sample exactly once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.streams import Protocol, Stream, Task
from evenstream.streams.class_incremental import ClassIncremental, base_classes
from evenstream.streams.initial_letter import InitialLetter
from tests.helpers.stream_samples import numbered, numbers, task_tests


def stream_of(dataset, tasks, seed=0, class_order="label"):
    return ClassIncremental(tasks=tasks, class_order=class_order).stream(dataset, seed)


@pytest.mark.parametrize(
    ("classes", "per_class", "tasks", "steps", "total", "last"),
    [(10, 5000, 5, 313, 1565, 16), (100, 500, 10, 157, 1570, 8), (200, 500, 10, 313, 3130, 16)],
    ids=["C-CIFAR10", "C-CIFAR100", "C-TinyImageNet"],
)
def test_the_counts_of_the_paper(classes, per_class, tasks, steps, total, last):
    stream = stream_of(numbered([per_class] * classes, [10] * classes), tasks)
    assert [stream.steps(task, 32) for task in range(len(stream))] == [steps] * tasks
    assert sum(stream.steps(task, 32) for task in range(len(stream))) == total
    for task in range(len(stream)):
        sizes = [len(step.labels) for step in stream.batches(task, 32)]
        assert sizes == [32] * (steps - 1) + [last]
        in_task = range(task * classes // tasks, (task + 1) * classes // tasks)
        assert stream.tasks[task].classes == tuple(in_task)
        assert stream.label_counts(task) == dict.fromkeys(in_task, per_class)
        x, labels = task_tests(stream, task)
        assert len(x) == 10 * classes // tasks
        assert set(labels) == set(in_task)
    everything = [number for task in range(len(stream)) for number in numbers(stream, task)]
    assert sorted(everything) == list(range(classes * per_class))


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(any),
    data=st.data(),
    seed=st.integers(0, 2**40),
    order=st.sampled_from(["label", "seed"]),
)
def test_any_groups_use_each_sample_once(counts, data, seed, order):
    tasks = data.draw(st.integers(1, len(counts)))
    batch = data.draw(st.integers(1, 9))
    dataset = numbered(counts)
    for stream in (
        stream_of(dataset, tasks, seed, order),
        stream_of(dataset, tasks, seed, order).shuffled(),
    ):
        sizes = [len(task.classes) for task in stream.tasks]
        assert len(stream) == tasks
        assert max(sizes) - min(sizes) <= 1
        assert sorted(c for task in stream.tasks for c in task.classes) == [*range(len(counts))]
        for name in ("train", "test"):
            used = np.concatenate([getattr(task, name) for task in stream.tasks])
            assert sorted(used.tolist()) == list(range(sum(counts)))
        for task in range(tasks):
            arrived = numbers(stream, task, batch)
            assert len(list(stream.batches(task, batch))) == stream.steps(task, batch)
            labels = [label for step in stream.batches(task, batch) for label in step.labels]
            found = {label: labels.count(label) for label in set(labels)}
            assert stream.label_counts(task) == found
            start = data.draw(st.integers(0, stream.steps(task, batch)))
            assert numbers(stream, task, batch, start) == arrived[start * batch :]
        assert stream.class_names() == [[str(c) for c in task.classes] for task in stream.tasks]


def test_inputs_and_labels_belong_together():
    dataset = numbered([5, 5, 5, 5], classes=["a", "b", "c", "d"])
    stream = stream_of(dataset, 2)
    of_number = dict(zip(dataset.x_train[:, 0].tolist(), dataset.y_train.tolist(), strict=True))
    for task in range(2):
        for step in stream.batches(task, 3):
            numbers = step.x[:, 0].tolist()
            assert step.labels == ["abcd"[of_number[number]] for number in numbers]
    x, labels = task_tests(stream, 1)
    assert set(labels) == {"c", "d"}
    assert len(x) == len(labels) == 10


def test_same_seed_same_stream_and_two_seeds_differ():
    dataset = numbered([20] * 6)
    one, again, other = (stream_of(dataset, 3, seed) for seed in (4, 4, 5))
    for task in range(3):
        assert numbers(one, task) == numbers(again, task)
        assert numbers(one, task) != numbers(other, task)
        assert sorted(numbers(one, task)) == sorted(numbers(other, task))
    assert [t.classes for t in one.tasks] == [t.classes for t in other.tasks]


def test_order_of_a_task_depends_on_seed_and_task_alone():
    """Not on what was drawn before: a run that resumes in task 2 sees what it would have seen."""
    stream = stream_of(numbered([20] * 6), 3)
    later = numbers(stream, 2)
    numbers(stream, 0)
    assert numbers(stream, 2) == later
    # and not on the batch size
    assert numbers(stream, 1, batch=7) == numbers(stream, 1, batch=40)


def test_class_order_by_seed():
    dataset = numbered([4] * 10)
    by_label = [t.classes for t in stream_of(dataset, 5).tasks]
    assert by_label == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    orders = {
        seed: tuple(t.classes for t in stream_of(dataset, 5, seed, "seed").tasks)
        for seed in range(8)
    }
    assert len(set(orders.values())) == 8
    again = stream_of(dataset, 5, 3, "seed")
    assert tuple(t.classes for t in again.tasks) == orders[3]


def test_shuffled_mixes_the_classes_and_keeps_the_tests():
    stream = stream_of(numbered([100] * 4), 2, seed=1)
    joint = stream.shuffled()
    assert [len(t.train) for t in joint.tasks] == [len(t.train) for t in stream.tasks]
    assert all(len(joint.label_counts(task)) == 4 for task in range(2))
    assert min(joint.label_counts(0).values()) > 30  # 50 expected, hypergeometric
    for task in range(2):
        assert task_tests(stream, task)[1] == task_tests(joint, task)[1]
        assert joint.tasks[task].classes == stream.tasks[task].classes
    assert numbers(joint, 0) == numbers(stream.shuffled(), 0)
    other = stream_of(stream.dataset, 2, seed=2).shuffled()
    assert numbers(joint, 0) != numbers(other, 0)


@pytest.mark.parametrize("tasks", [-1, 5])
def test_impossible_numbers_of_tasks(tasks):
    with pytest.raises(InputError, match="between 1 and the number of classes, 4"):
        stream_of(numbered([3] * 4), tasks)


def test_a_task_without_training_samples():
    dataset = numbered([0, 3], [2, 2])
    stream = stream_of(dataset, 2)
    assert stream.steps(0, 4) == 0
    assert list(stream.batches(0, 4)) == []
    assert stream.label_counts(0) == {}


def test_a_stream_can_be_made_by_hand():
    dataset = numbered([2, 2])
    task = Task(classes=(0, 1), train=np.arange(4), test=np.arange(2))
    stream = Stream("mine", dataset, [task], Protocol(batch=3), seed=0)
    assert len(stream) == 1
    assert stream.steps(0, stream.protocol.batch) == 2


def test_classes_for_pre_training_do_not_depend_on_the_seed():
    """C-ImageNet in small: 20 of 200 classes set aside, then 90 tasks of 2."""
    dataset = numbered([3] * 200)
    scenario = ClassIncremental(tasks=90, reserve=20)
    base = base_classes(dataset, 20).tolist()
    assert len(set(base)) == 20
    assert base != list(range(20))
    for seed in (0, 1):
        stream = scenario.stream(dataset, seed)
        streamed = [index for task in stream.tasks for index in task.classes]
        assert [len(task.classes) for task in stream.tasks] == [2] * 90
        assert streamed == sorted(set(range(200)) - set(base))
        assert not set(dataset.y_train[stream.order()].tolist()) & set(base)
        assert len(stream.order()) == 180 * 3
    by_seed = ClassIncremental(tasks=90, reserve=20, class_order="seed").stream(dataset, 4)
    assert sorted(c for task in by_seed.tasks for c in task.classes) == streamed
    assert base_classes(dataset, 20, base_seed=1).tolist() != base
    assert len(ClassIncremental(reserve=4).stream(numbered([3] * 10))) == 3  # two classes each


@pytest.mark.parametrize("reserve", [-1, 4])
def test_impossible_numbers_of_classes_set_aside(reserve):
    with pytest.raises(InputError, match="reserve must lie between 0 and 3"):
        ClassIncremental(reserve=reserve).stream(numbered([3] * 4))
    with pytest.raises(InputError, match="between 1 and the number of classes, 3"):
        ClassIncremental(reserve=1, tasks=4).stream(numbered([3] * 4))


def test_the_last_short_batch_can_be_dropped():
    stream = ClassIncremental(tasks=2).stream(numbered([10, 3]), drop_last=True)
    assert [[len(step.labels) for step in stream.batches(task, 4)] for task in range(2)] == [
        [4, 4],
        [],
    ]
    assert [stream.steps(task, 4) for task in range(2)] == [2, 0]


def test_tasks_by_initial_letter():
    names = ["Zea mays", "abies alba", "Bufo bufo", "Acer rubrum", "Quercus robur"]
    dataset = numbered([5, 1, 4, 2, 3], classes=names)
    stream = InitialLetter().stream(dataset)
    assert stream.class_names() == [
        ["abies alba", "Acer rubrum"], ["Bufo bufo"], ["Quercus robur"], ["Zea mays"]
    ]  # fmt: skip
    assert [len(task.train) for task in stream.tasks] == [3, 4, 3, 5]
    assert sum(len(task.test) for task in stream.tasks) == 15


def test_all_letters_make_26_tasks():
    names = [f"{chr(65 + number % 26)}species {number}" for number in range(60)]
    stream = InitialLetter().stream(numbered([1] * 60, classes=names))
    assert [len(task.classes) for task in stream.tasks] == [3] * 8 + [2] * 18
    assert [task[0][0] for task in stream.class_names()] == [chr(65 + k) for k in range(26)]
