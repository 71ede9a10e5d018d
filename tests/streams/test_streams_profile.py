"""What a stream looks like over time, against counting one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.streams import profile
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.gradual import Gradual
from evenstream.streams.recurring import Recurring
from evenstream.streams.sum_class_domain import SumClassDomain
from tests.helpers.stream_samples import cifar100, numbered


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=8).filter(any),
    bins=st.integers(1, 30),
    scenario=st.sampled_from([ClassIncremental(), Gradual(), Recurring()]),
)
def test_counts_against_brute_force(counts, bins, scenario):
    stream = scenario.stream(numbered(counts), 4)
    found = profile(stream, bins)
    labels = [
        label for task in range(len(stream)) for b in stream.batches(task, 1) for label in b.labels
    ]
    n = len(labels)
    assert found.edges[0] == 0
    assert found.edges[-1] == n
    assert len(found.edges) - 1 == len(found.over_time) == min(bins, n)
    widths = np.diff(found.edges)
    assert widths.max() - widths.min() <= 1
    for row, first, last in zip(found.over_time, found.edges, found.edges[1:], strict=False):
        assert row.tolist() == [labels[first:last].count(c) for c in range(len(counts))]
    known = set()
    for task in range(len(stream)):
        per_class = stream.label_counts(task)
        assert found.in_task[task].tolist() == [per_class.get(c, 0) for c in range(len(counts))]
        assert found.classes_per_task[task] == len(per_class)
        assert found.new_classes_per_task[task] == len(per_class.keys() - known)
        known |= per_class.keys()
    assert found.task_ends.tolist() == np.cumsum([len(t.train) for t in stream.tasks]).tolist()
    assert found.domain_names == []
    assert found.domains_in_task is found.domains_per_class is None


def test_the_figure_of_s_cifar100():
    """Subclasses of each superclass in each task; distinct and new superclasses of the spec."""
    stream = SumClassDomain().stream(cifar100(8, 1))
    found = profile(stream, 20)
    per_class = found.domains_per_class
    assert per_class.shape == (20, 20)
    assert (per_class.sum(axis=0) == 5).all()
    assert (per_class.sum(axis=1) == 5).all()
    distinct = [5, 4, 5, 4, 5, 4, 5, 5, 4, 5, 4, 4, 4, 5, 5, 4, 5, 3, 5, 5]
    assert found.classes_per_task == distinct
    assert found.new_classes_per_task == [5, 4, 1, 1, 2, 2, 1, 1, 1, 1, 1] + [0] * 9
    assert found.domains_in_task.sum(axis=2).tolist() == found.in_task.tolist()
    assert found.domains_in_task.sum() == 800
    assert found.domain_names == stream.domains.names


def test_inputs_are_not_read():
    stream = ClassIncremental().stream(numbered([3, 3]))
    expected = profile(stream, 2).over_time.tolist()

    class Unreadable:
        shape, ndim, dtype = (6, 1), 2, np.dtype("float32")

    object.__setattr__(stream.dataset, "x_train", Unreadable())
    assert profile(stream, 2).over_time.tolist() == expected


def test_a_stream_without_samples():
    stream = ClassIncremental().stream(numbered([3, 3]))
    stream.tasks = [replace(task, train=task.train[:0]) for task in stream.tasks]
    found = profile(stream)
    assert found.over_time.tolist() == [[0, 0]]
    assert found.classes_per_task == [0]


def test_impossible_bins():
    with pytest.raises(InputError, match="bins must be 1 or more"):
        profile(ClassIncremental().stream(numbered([3, 3])), 0)
