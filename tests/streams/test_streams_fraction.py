"""The option `fraction`, which every scenario has: a part of the training samples."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.errors import InputError
from evenstream.streams import SCENARIOS, open_stream
from evenstream.streams.blurry import Blurry
from evenstream.streams.class_incremental import ClassIncremental
from evenstream.streams.gradual import Gradual
from tests.helpers.stream_samples import cifar100, numbered, numbers, train_sizes

FRACTIONS = st.floats(0.01, 1)


def classes_of(stream, task):
    return Counter(stream.dataset.y_train[stream.tasks[task].train].tolist())


@settings(max_examples=40)
@given(FRACTIONS, st.lists(st.integers(1, 40), min_size=4, max_size=8), st.integers(0, 3))
def test_every_class_of_a_task_keeps_its_share_and_at_least_one(fraction, counts, seed):
    data = numbered(counts)
    whole = ClassIncremental(tasks=2).stream(data, seed)
    part = ClassIncremental(tasks=2, fraction=fraction).stream(data, seed)
    for task in range(2):
        before, after = classes_of(whole, task), classes_of(part, task)
        assert after == {index: max(1, round(n * fraction)) for index, n in before.items()}
        assert set(part.tasks[task].train) <= set(whole.tasks[task].train)
        np.testing.assert_array_equal(part.tasks[task].test, whole.tasks[task].test)


def test_a_blurry_stream_stays_blurry():
    stream = Blurry(tasks=10, fraction=0.2).stream(cifar100())
    counts = classes_of(stream, 0)
    assert Counter(counts.values()) == {100: 5, 82: 5, 2: 45}


def test_the_order_of_arrival_is_kept_where_it_is_the_scenarios():
    data = numbered([50] * 4)
    whole = Gradual(tasks=2).stream(data, 1)
    part = Gradual(tasks=2, fraction=0.3).stream(data, 1)
    arrival = {row: place for place, row in enumerate(whole.order().tolist())}
    places = [arrival[row] for row in part.order().tolist()]
    assert places == sorted(places) and len(places) < 100


def test_the_seed_draws_the_part_and_one_leaves_the_stream_as_it_was():
    data = numbered([30] * 4)
    part = [ClassIncremental(fraction=0.5).stream(data, seed) for seed in (0, 0, 1)]
    assert numbers(part[0], 0) == numbers(part[1], 0)
    assert set(numbers(part[0], 0)) != set(numbers(part[2], 0))
    plain = ClassIncremental().stream(data)
    assert numbers(plain, 1) == numbers(ClassIncremental(fraction=1.0).stream(data), 1)


def test_it_is_written_behind_the_name_of_a_stream():
    whole, half = (open_stream(f"c-digits:fraction={share}") for share in (1, 0.5))
    assert sum(train_sizes(half)) == pytest.approx(sum(train_sizes(whole)) / 2, abs=5)
    assert [task.classes for task in half.tasks] == [task.classes for task in whole.tasks]


@pytest.mark.parametrize("scenario", SCENARIOS.values())
@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1])
def test_shares_that_make_no_sense_are_refused_by_all(scenario, fraction):
    with pytest.raises(InputError, match="fraction must lie above 0 and not above 1"):
        scenario(fraction=fraction)
