"""The replay memory against a plain list, and undoing what was written."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.core.memory import Memory, X, Y

CAPACITY = 5


@st.composite
def writes(draw):
    """Writes into distinct slots that continue the filled part without a gap."""
    size, width, found = 0, 1, []
    for _ in range(draw(st.integers(0, 6))):
        new = draw(st.integers(0, CAPACITY - size))
        old = draw(st.lists(st.integers(0, size - 1), unique=True)) if size else []
        slots = old + list(range(size, size + new))
        width += draw(st.integers(-1, 2))  # the head may have been narrower when logits were made
        width = max(width, 1)
        fields = draw(st.sampled_from([(), ("logits",), ("logits", "task")]))
        seed = draw(st.integers(0, 10**6))
        found.append((slots, width, fields, seed))
        size += new
    return found


def values_of(slots, width, fields, seed):
    draw = torch.Generator().manual_seed(seed)
    count = len(slots)
    values = {
        X: torch.randint(0, 256, (count, 2, 3), generator=draw, dtype=torch.uint8),
        Y: torch.randint(0, 4 + seed % 3, (count,), generator=draw),
    }
    if "logits" in fields:
        values["logits"] = torch.randn(count, width, generator=draw)
    if "task" in fields:
        values["task"] = torch.randint(0, 9, (count,), generator=draw)
    return values


def write(memory, plan):
    for slots, *rest in plan:
        memory.seen += len(slots)
        memory.put(torch.tensor(slots, dtype=torch.int64), values_of(slots, *rest))


def contents(memory):
    """All that a memory holds, as plain values (trailing classes without samples left out)."""
    return {
        "seen": memory.seen,
        "size": len(memory),
        "counts": memory.class_counts.tolist(),
        "fields": {name: memory.field(name).tolist() for name in memory.fields},
    }


@settings(max_examples=150)
@given(writes())
def test_memory_equals_a_list_of_samples(plan):
    memory, expected, widest = Memory(CAPACITY), {}, 0
    for slots, *rest in plan:
        write(memory, [(slots, *rest)])
        values = values_of(slots, *rest)
        if slots and "logits" in values:
            widest = max(widest, values["logits"].shape[1])
        for row, slot in enumerate(slots):
            expected[slot] = {name: value[row].tolist() for name, value in values.items()}
        assert len(memory) == len(expected) <= CAPACITY
        labels = [expected[slot][Y] for slot in sorted(expected)]
        counts = memory.class_counts.tolist()
        assert counts == [labels.count(c) for c in range(len(counts))]
        assert sum(counts) == len(labels)
    for slot, sample in expected.items():
        rows = {name: memory.field(name)[slot].tolist() for name in memory.fields}
        assert rows[X] == sample[X] and rows[Y] == sample[Y]
        if "logits" in rows:  # padded with zeros; zeros, not the last owner's, if never given
            logits = sample.get("logits", [])
            assert rows["logits"] == logits + [0.0] * (widest - len(logits))
        if "task" in rows:
            assert rows["task"] == sample.get("task", 0)


@settings(max_examples=150)
@given(writes(), writes())
def test_restore_puts_back_everything(before, refused):
    memory = Memory(CAPACITY)
    write(memory, before)
    state = contents(memory)
    size = len(memory)
    refused = [([s for s in slots if s < size], *rest) for slots, *rest in refused] + [
        (list(range(size, CAPACITY)), 6, ("logits", "task"), 1)
    ]
    mark = memory.mark()
    write(memory, refused)
    if "logits" in memory.fields and len(memory):
        memory.set_field("logits", torch.tensor([0]), torch.full((1, 6), 7.0))
    memory.restore(mark)
    assert contents(memory) == state
    # And it goes on like a memory in which nothing had happened.
    twin = Memory(CAPACITY)
    write(twin, before)
    later = [(list(range(CAPACITY))[len(memory) :], 3, ("logits",), 5), ([0], 4, ("logits",), 6)]
    write(memory, later)
    write(twin, later)
    assert contents(memory) == contents(twin)


@given(writes(), writes())
def test_what_is_committed_stays(before, kept):
    memory, twin = Memory(CAPACITY), Memory(CAPACITY)
    size = sum(max(0, len(slots)) for slots, *_ in before)
    write(memory, before)
    write(twin, before)
    kept = [([s for s in slots if s < min(size, len(memory))], *rest) for slots, *rest in kept]
    memory.mark()
    write(memory, kept)
    memory.settle()
    write(twin, kept)
    assert contents(memory) == contents(twin)


@given(writes())
def test_state_round_trip(plan):
    memory, loaded = Memory(CAPACITY), Memory(CAPACITY)
    write(memory, plan)
    loaded.load_state(memory.state())
    assert contents(loaded) == contents(memory)
    if len(memory):
        write(memory, [([0], 2, ("logits",), 9)])
        write(loaded, [([0], 2, ("logits",), 9)])
        assert contents(loaded) == contents(memory)


def test_types_are_kept():
    memory = Memory(3)
    values = {X: torch.zeros(2, 1, 4, 4, dtype=torch.uint8), Y: torch.tensor([0, 1])}
    memory.put(torch.tensor([0, 1]), {**values, "flag": torch.tensor([True, False])})
    rows = memory.rows(torch.tensor([1, 0, 1]))
    assert rows[X].dtype == torch.uint8 and rows["flag"].dtype == torch.bool
    assert rows[Y].tolist() == [1, 0, 1] and rows["flag"].tolist() == [False, True, False]


def test_rows_are_copies():
    memory = Memory(2)
    memory.put(torch.tensor([0]), {X: torch.ones(1, 2), Y: torch.tensor([0])})
    memory.rows(torch.tensor([0]))[X].fill_(9)
    assert memory.field(X).tolist() == [[1, 1]]


def test_one_field_can_be_refreshed_and_a_new_one_added():
    memory = Memory(3)
    values = {X: torch.ones(3, 2), Y: torch.tensor([0, 1, 0]), "z": torch.ones(3, 2)}
    memory.put(torch.arange(3), values)
    memory.set_field("z", torch.tensor([2, 0]), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert memory.field("z").tolist() == [[4, 5, 6], [1, 1, 0], [1, 2, 3]]
    memory.set_field("score", torch.tensor([1]), torch.tensor([0.5]))
    assert memory.field("score").tolist() == [0, 0.5, 0]


def test_capacity_zero_holds_nothing():
    memory = Memory(0)
    memory.put(torch.zeros(0, dtype=torch.int64), {})
    assert len(memory) == 0 and memory.fields == () and memory.class_counts.tolist() == []
    memory.load_state(memory.state())
    assert len(memory) == 0
