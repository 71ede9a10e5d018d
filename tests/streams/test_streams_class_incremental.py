"""Class-incremental streams: counts, orders, and every sample exactly once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.data import Dataset
from evenstream.errors import InputError
from evenstream.streams import Protocol, Stream, Task
from evenstream.streams.class_incremental import class_incremental


def numbered(counts, test_counts=None, classes=None):
    """A data set whose inputs are the sample's own number, so that it can be followed."""
    test_counts = counts if test_counts is None else test_counts

    def part(counts):
        y = np.repeat(np.arange(len(counts)), counts)
        x = np.arange(len(y), dtype=np.float32)[:, np.newaxis]
        shuffle = np.random.default_rng(0).permutation(len(y))
        return x[shuffle], y[shuffle]

    x_train, y_train = part(counts)
    x_test, y_test = part(test_counts)
    names = classes or list(range(len(counts)))
    return Dataset("numbered", x_train, y_train, x_test, y_test, classes=names)


def stream_of(dataset, tasks, seed=0, class_order="label"):
    return class_incremental("test", dataset, tasks, Protocol(), seed, class_order)


def numbers(stream, task, batch=32, start=0):
    """The numbers of the samples of a task, in the order in which they arrive."""
    parts = [step.x[:, 0] for step in stream.batches(task, batch, start)]
    return np.concatenate(parts).astype(int).tolist() if parts else []


@pytest.mark.parametrize(
    ("classes", "per_class", "tasks", "steps", "total", "last"),
    [(10, 5000, 5, 313, 1565, 16), (100, 500, 10, 157, 1570, 8)],
    ids=["C-CIFAR10", "C-CIFAR100"],
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
        x, labels = stream.test_set(task)
        assert len(x) == 10 * classes // tasks
        assert set(labels) == set(in_task)
    everything = [number for task in range(len(stream)) for number in numbers(stream, task)]
    assert sorted(everything) == list(range(classes * per_class))


def test_batch_size_schedule_of_the_spec():
    """Batches of 2, 4, 8, 16 and 32 over the five tasks of C-CIFAR10."""
    stream = stream_of(numbered([5000] * 10, [1] * 10), 5)
    steps = [stream.steps(task, 2 ** (task + 1)) for task in range(5)]
    assert steps == [5000, 2500, 1250, 625, 313]
    assert stream.steps(0, 1) == 10_000


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
    x, labels = stream.test_set(1)
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
        assert stream.test_set(task)[1] == joint.test_set(task)[1]
        assert joint.tasks[task].classes == stream.tasks[task].classes
    assert numbers(joint, 0) == numbers(stream.shuffled(), 0)
    other = stream_of(stream.dataset, 2, seed=2).shuffled()
    assert numbers(joint, 0) != numbers(other, 0)


@pytest.mark.parametrize("tasks", [0, -1, 5])
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
