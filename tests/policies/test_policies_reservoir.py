"""The reservoir against a loop over samples, and its law; retrieval."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenstream.core.memory import Memory, X, Y
from evenstream.policies import retrieval
from evenstream.policies.retrieval import Uniform
from evenstream.policies.storing import last_writer_wins, reservoir_slots
from tests.helpers.small_streams import blobs, small


def offer(memory, ids, generator):
    """Offer samples whose input is their number, as the learner does."""
    ids = torch.tensor(ids, dtype=torch.int64)
    slots, rows = reservoir_slots(memory, len(ids), generator)
    memory.put(slots, {X: ids[rows, None].float(), Y: ids[rows] % 3})


def loop_oracle(capacity, total, uniforms):
    """Vitter's algorithm R, one sample after the other."""
    stored = []
    for number in range(total):
        if number < capacity:
            stored.append(number)
        else:
            slot = int(uniforms[number] * (number + 1))
            if slot < capacity:
                stored[slot] = number
    return stored


@settings(max_examples=150)
@given(
    capacity=st.integers(1, 8),
    sizes=st.lists(st.integers(0, 30), max_size=6),
    seed=st.integers(0, 2**32),
)
def test_whole_batches_equal_a_loop_over_samples(capacity, sizes, seed):
    memory, generator = Memory(capacity), torch.Generator().manual_seed(seed)
    same = torch.Generator().manual_seed(seed)
    uniforms, total = [], 0
    for size in sizes:
        offer(memory, list(range(total, total + size)), generator)
        uniforms += torch.rand(size, generator=same, dtype=torch.float64).tolist()
        total += size
        stored = loop_oracle(capacity, total, uniforms)
        assert memory.seen == total and len(memory) == min(total, capacity)
        if stored:
            assert memory.field(X)[:, 0].tolist() == stored
            assert memory.field(Y).tolist() == [number % 3 for number in stored]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000)), max_size=20).map(
        lambda pairs: [(slot, row) for row, (slot, _) in enumerate(pairs)]
    )
)
def test_last_writer_wins(writes):
    expected = dict(writes)
    slots, rows = last_writer_wins(
        torch.tensor([slot for slot, _ in writes], dtype=torch.int64),
        torch.tensor([row for _, row in writes], dtype=torch.int64),
    )
    assert dict(zip(slots.tolist(), rows.tolist(), strict=True)) == expected
    assert len(slots) == len(expected)


@pytest.mark.parametrize(
    ("n", "capacity", "repeats"),
    [(12, 3, 600), pytest.param(40, 10, 4000, marks=pytest.mark.slow)],
)
def test_every_sample_is_kept_equally_often(n, capacity, repeats):
    """A chi-square, with batches of changing sizes; the slow one has the spec's numbers.

    The other is small, because there a slot drawn from one too many or too few shows most.
    """
    generator, sizes = torch.Generator().manual_seed(0), random.Random(0)
    hits = torch.zeros(n)
    for _ in range(repeats):
        memory, start = Memory(capacity), 0
        while start < n:
            stop = min(n, start + sizes.choice([1, 3, 8]))
            ids = torch.arange(start, stop)
            slots, rows = reservoir_slots(memory, len(ids), generator)
            memory.put(slots, {Y: ids[rows]})
            start = stop
        hits[memory.field(Y)] += 1
    expected = repeats * capacity / n
    statistic = (n - 1) / n * ((hits - expected) ** 2).sum() / (expected * (1 - capacity / n))
    assert hits.sum() == repeats * capacity
    assert statistic < stats.chi2.ppf(0.999, n - 1)
    assert statistic > stats.chi2.ppf(0.001, n - 1)  # nor suspiciously even


def test_the_prefix_is_kept_in_order_while_there_is_room():
    memory, generator = Memory(10), torch.Generator().manual_seed(0)
    for start in (0, 3, 7):
        offer(memory, list(range(start, {0: 3, 3: 7, 7: 10}[start])), generator)
        assert memory.field(X)[:, 0].tolist() == list(range(len(memory)))


def test_an_offer_of_nothing_changes_nothing():
    memory, generator = Memory(3), torch.Generator().manual_seed(0)
    offer(memory, [], generator)
    assert (memory.seen, len(memory)) == (0, 0)


# ---- uniform retrieval, through the learner ------------------------------------------------------


class Peek(Uniform):
    """Notes the slots that it picks."""

    def __init__(self):
        self.picked = []

    def pick(self, step, count):
        rows = super().pick(step, count)
        self.picked.append(rows.slots.tolist())
        return rows


def test_retrieval_is_without_replacement_and_of_the_right_size():
    peek = Peek()
    learner = small("er", retrieval=peek, memory=6, replay_batch=4)
    for seed in range(10):
        learner.learn(*blobs(2, seed=seed))
    assert [len(picked) for picked in peek.picked] == [0, 2, 4, 4, 4, 4, 4, 4, 4, 4]
    assert all(len(set(picked)) == len(picked) for picked in peek.picked)


def test_retrieval_is_uniform():
    peek, hits, repeats = Peek(), torch.zeros(8), 500
    learner = small("er", retrieval=peek, memory=8, replay_batch=3)
    x, y = blobs(8)
    learner.learn(x, y)
    for _ in range(repeats):
        learner.learn(x[:1], y[:1])
    for picked in peek.picked:
        hits[picked] += 1
    expected = repeats * 3 / 8
    statistic = 7 / 8 * ((hits - expected) ** 2).sum() / (expected * (1 - 3 / 8))
    assert statistic < stats.chi2.ppf(0.999, 7)


@pytest.mark.parametrize("replay_batch", [0, 1, 50])
def test_any_replay_batch(replay_batch):
    learner = small("er", memory=5, replay_batch=replay_batch)
    learner.learn(*blobs(3))
    assert learner.learn(*blobs(2, seed=1)).rows == 2 + min(replay_batch, 3)


@pytest.mark.parametrize("whole_permutation", [True, False])
def test_draws_of_distinct_slots_are_uniform(monkeypatch, whole_permutation):
    """Every ordered pair out of nine is equally likely, by permutation or by redrawing."""
    if not whole_permutation:
        monkeypatch.setattr(retrieval, "PERMUTE_UP_TO", 0)
    generator, repeats = torch.Generator().manual_seed(0), 6000
    hits = torch.zeros(9, 9)
    for _ in range(repeats):
        first, second = retrieval.draw_distinct(9, 2, generator).tolist()
        hits[first, second] += 1
    assert hits.diagonal().sum() == 0
    expected = repeats / 72
    statistic = ((hits - expected) ** 2).sum() / expected - 9 * expected  # the empty diagonal
    assert statistic < stats.chi2.ppf(0.999, 71)


@given(size=st.integers(0, 60), count=st.integers(0, 70), seed=st.integers(0, 999))
def test_draws_are_distinct_and_in_range(size, count, seed):
    limit = retrieval.PERMUTE_UP_TO
    for up_to in (limit, 0):
        retrieval.PERMUTE_UP_TO = up_to
        try:
            drawn = retrieval.draw_distinct(size, count, torch.Generator().manual_seed(seed))
        finally:
            retrieval.PERMUTE_UP_TO = limit
        assert len(drawn) == len(set(drawn.tolist())) == min(size, count)
        assert all(0 <= slot < size for slot in drawn.tolist())
