"""Streams that do not reveal their boundaries, resuming, and the seed, in every scenario."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.streams import SCENARIOS
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.domain_incremental import DomainIncremental
from evenstream.streams.initial_letter import InitialLetter
from evenstream.streams.recurring import Recurring
from tests.helpers.stream_samples import SUPERCLASS_OF, numbered, numbers, used_once

ALL = [*SCENARIOS.values(), InitialLetter]


def make(scenario, seed=0, **options):
    """A stream over 30 classes with superclasses, 40 to 69 samples each."""
    dataset = numbered(range(40, 70), [2] * 30, superclasses=SUPERCLASS_OF[:30])
    if scenario is DomainIncremental:
        options["by"] = "subclass"
    return scenario(**options).stream(dataset, seed)


def whole(stream, batch):
    return [number for task in range(len(stream)) for number in numbers(stream, task, batch)]


@pytest.mark.parametrize("scenario", ALL)
def test_every_scenario(scenario):
    options = {"minor": 3} if "minor" in scenario.__dataclass_fields__ else {}
    stream, again, other = (make(scenario, seed, **options) for seed in (1, 1, 2))
    arrived = whole(stream, 7)
    order = stream.dataset.x_train[stream.order(), 0].astype(int).tolist()
    assert arrived == order == whole(stream, 16) == whole(again, 9)
    assert whole(other, 7) != arrived
    assert len(set(arrived)) == len(arrived)  # none twice
    part = scenario in (SCENARIOS["m"], SCENARIOS["lt"])
    assert used_once(stream) is not part
    for task in range(len(stream)):  # resuming
        found = numbers(stream, task, 7)
        for start in range(stream.steps(task, 7) + 1):
            assert numbers(stream, task, 7, start) == found[7 * start :]
    # each test sample is tested in one task, or once in each round
    tested = np.bincount(np.concatenate([task.test for task in stream.tasks]))
    assert set(tested.tolist()) == {3 if scenario is Recurring else 1}


@pytest.mark.parametrize("scenario", ALL)
def test_no_short_batch_gives_a_boundary_away(scenario):
    options = {"minor": 3} if "minor" in scenario.__dataclass_fields__ else {}
    stream = make(scenario, boundaries=False, **options)
    assert not stream.boundaries
    sizes = [len(b.labels) for task in range(len(stream)) for b in stream.batches(task, 32)]
    n = len(stream.order())
    assert sizes == [32] * (n // 32) + ([n % 32] if n % 32 else [])
    assert sum(stream.steps(task, 32) for task in range(len(stream))) == len(sizes)


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any),
    drop_last=st.booleans(),
    data=st.data(),
)
def test_batches_run_on_over_the_ends(counts, drop_last, data):
    """Against a cut of the whole order: a stage ends with the batch that reaches its end."""
    n = len(counts)
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    scenario = ClassIncremental(tasks=n, boundaries=False)
    stream = scenario.stream(numbered(counts), drop_last=drop_last)
    order = stream.dataset.x_train[stream.order(), 0].astype(int).tolist()
    ends = list(itertools.accumulate(len(task.train) for task in stream.tasks))
    at = 0
    for task, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        expected = []
        while at < end:
            part = order[at : at + size]
            at += len(part)
            if len(part) == size or not drop_last:
                expected.append(part)
        found = [b.x[:, 0].astype(int).tolist() for b in stream.batches(task, sizes)]
        assert found == expected
        assert stream.steps(task, sizes) == len(expected)
        start = data.draw(st.integers(0, len(expected)))
        assert numbers(stream, task, sizes, start) == list(itertools.chain(*expected[start:]))


def test_hidden_boundaries_leave_the_order_alone():
    dataset = numbered([10, 10, 10, 10])
    told, untold = (ClassIncremental(boundaries=b).stream(dataset, 3) for b in (True, False))
    assert np.array_equal(told.order(), untold.order())
    assert not untold.shuffled().boundaries
