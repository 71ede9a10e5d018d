"""Storing policies that keep the classes of a full memory equal in number."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenstream import Learner
from evenstream.composition import compose
from evenstream.core.memory import X, Y
from evenstream.errors import InputError
from evenstream.methods import ER
from evenstream.policies.storing import BalancedReservoir, GreedyBalanced
from tests.helpers.small_streams import Noisy, blobs, class_stream, feed, refused, small

LABELS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=25)


def filled(storing, batches, capacity, seed=0):
    """A learner that has been offered rows whose first input is their number of arrival."""
    learner = small(ER(), storing=storing, memory=capacity, seed=seed, lr=0.0, head_size=5)
    arrived = 0
    for labels in batches:
        x = np.zeros((len(labels), 3), np.float32)
        x[:, 0] = np.arange(arrived, arrived + len(labels))
        arrived += len(labels)
        learner.learn(x, labels)
    return learner


def stored(learner):
    """Number of arrival and label of each stored row."""
    numbers = learner.memory.field(X)[:, 0].long().tolist()
    return [(n, learner.labels[y]) for n, y in zip(numbers, learner.memory.field(Y), strict=True)]


@settings(max_examples=60)
@given(LABELS, st.integers(1, 12), st.sampled_from([BalancedReservoir, GreedyBalanced]))
def test_the_memory_is_full_of_rows_with_their_labels(batches, capacity, policy):
    flat = [label for labels in batches for label in labels]
    learner = filled(policy(), batches, capacity)
    rows = stored(learner)
    assert len(rows) == min(capacity, len(flat)) and len(dict(rows)) == len(rows)
    assert all(flat[number] == label for number, label in rows)
    assert learner.memory.seen == len(flat)


@settings(max_examples=60)
@given(LABELS, st.integers(1, 12))
def test_classes_are_as_equal_as_the_stream_allows(batches, capacity):
    """No class has two more rows than one that was offered more than it has now."""
    flat = Counter(label for labels in batches for label in labels)
    kept = Counter(label for _, label in stored(filled(BalancedReservoir(), batches, capacity)))
    for label, count in flat.items():
        if kept[label] < count:
            assert max(kept.values()) <= kept[label] + 1


@settings(max_examples=60)
@given(LABELS, st.integers(1, 12))
def test_greedy_storing_against_its_rule(batches, capacity):
    """How many rows of each class are stored, one newcomer after the other."""
    kept: Counter[int] = Counter()
    order: list[int] = []
    for label in (label for labels in batches for label in labels):
        order += [] if label in order else [label]
        classes = sum(kept[each] > 0 for each in order) + (kept[label] == 0)
        if sum(kept.values()) < capacity:
            kept[label] += 1
        elif kept[label] < capacity / classes:
            kept[max(order, key=lambda each: kept[each])] -= 1
            kept[label] += 1
    learner = filled(GreedyBalanced(), batches, capacity)
    assert Counter(label for _, label in stored(learner)) == +kept


def test_a_class_is_a_reservoir_of_its_own_rows():
    """A frequent and a rare class: each keeps half, every one of its rows with the same chance."""
    batches = [[0, 0, 0, 1]] * 2 + [[0, 0, 0, 1] * 7] * 4  # 90 rows and 30
    times = Counter()
    for seed in range(150):
        found = stored(filled(BalancedReservoir(), batches, 20, seed))
        assert Counter(label for _, label in found) == {0: 10, 1: 10}
        times.update(number for number, _ in found)
    for own in (lambda n: n % 4 < 3, lambda n: n % 4 == 3):
        counts = np.array([times[n] for n in range(120) if own(n)])
        thirds = [part.mean() for part in np.array_split(counts, 3)]  # early, middle, late
        assert stats.chisquare([part * len(counts) / 3 for part in thirds]).pvalue > 0.01


@pytest.mark.parametrize("policy", ["balanced", "greedy"])
def test_by_name_it_resumes_exactly_and_is_undone(policy):
    spec = f"er-las:storing={policy}"
    stream = class_stream(14, batch=5)
    learner = feed(small(spec, Noisy()), stream[:8])
    resumed = Learner.from_state(learner.state(), Noisy())
    x = blobs(4)[0]
    loss = learner.method.loss
    learner.method.loss = lambda step: loss(step) * float("inf")
    refused(learner, lambda: learner.learn(x, ["new"] * 4))
    learner.method.loss = loss
    assert feed(resumed, stream[8:]).fingerprint() == feed(learner, stream[8:]).fingerprint()


def test_the_option_is_written_in_one_way():
    assert compose("er-las:storing=balanced").text == "er-las:storing=balanced"
    assert compose("er:storing=reservoir").text == "er"
    by_hand = compose(ER(), storing=BalancedReservoir())
    assert by_hand.text == "er:storing=balanced" and not by_hand.unwritten


@pytest.mark.parametrize(
    ("spec", "reason"),
    [("fine-tune:storing=balanced", "uses no memory"), ("clib:storing=balanced", "in its own way")],
)
def test_where_it_makes_no_sense_it_is_refused(spec, reason):
    with pytest.raises(InputError, match=reason):
        small(spec)


def test_methods_that_store_fields_take_part():
    learner = feed(small("der++:storing=balanced", Noisy()), class_stream(10))
    assert torch.isfinite(learner.memory.field("logits")).all()
