"""Batch sizes that change from task to task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.streams import batch_sizes
from evenstream.streams.class_incremental import ClassIncremental
from tests.helpers.stream_samples import numbered


def test_the_schedules_of_the_spec():
    """C-CIFAR10: five tasks of 10,000 samples."""
    stream = ClassIncremental().stream(numbered([5000] * 10, [1] * 10))

    def steps(schedule):
        sizes = batch_sizes(schedule, 32, 5, 0)
        return sizes, [stream.steps(task, sizes) for task in range(5)]

    assert steps("increase") == ([2, 4, 8, 16, 32], [5000, 2500, 1250, 625, 313])
    assert steps("decrease") == ([32, 16, 8, 4, 2], [313, 625, 1250, 2500, 5000])
    assert sum(steps("increase")[1]) == sum(steps("decrease")[1]) == 9688
    assert steps("constant") == ([32] * 5, [313] * 5)
    assert stream.steps(0, 1) == 10_000


@pytest.mark.parametrize(
    ("batch", "tasks", "sizes"),
    [
        (32, 1, [32]),
        (32, 2, [2, 32]),
        (32, 3, [2, 8, 32]),
        (32, 9, [2, 3, 4, 6, 8, 11, 16, 23, 32]),
        (10, 5, [2, 3, 4, 7, 10]),
        (2, 3, [2, 2, 2]),
        (32, 0, []),
    ],
)
def test_evenly_spaced_exponents(batch, tasks, sizes):
    assert batch_sizes("increase", batch, tasks, 0) == sizes
    assert batch_sizes("decrease", batch, tasks, 0) == sizes[::-1]


@given(batch=st.integers(2, 300), tasks=st.integers(1, 40), seed=st.integers(0, 2**40))
def test_sizes_stay_in_range(batch, tasks, seed):
    rising, drawn = (batch_sizes(name, batch, tasks, seed) for name in ("increase", "random"))
    assert rising == sorted(rising)
    assert rising[-1] == batch
    assert len(drawn) == len(rising) == tasks
    assert all(2 <= size <= batch for size in rising + drawn)
    assert all(type(size) is int for size in rising + drawn)


def test_random_sizes_by_seed():
    one, again, other = (batch_sizes("random", 32, 400, seed) for seed in (1, 1, 2))
    assert one == again != other
    assert set(one) == set(range(2, 33))


@pytest.mark.parametrize("schedule", ["increase", "decrease", "random"])
def test_a_batch_of_one_leaves_no_room(schedule):
    with pytest.raises(InputError, match="goes from 2 to the batch size, which is 1"):
        batch_sizes(schedule, 1, 5, 0)
    assert batch_sizes("constant", 1, 2, 0) == [1, 1]
