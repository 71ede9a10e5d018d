"""CLIB: importance of what is stored, and a memory balanced by it."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream.core.memory import Memory, X, Y
from evenstream.methods.clib import LeastImportantOfTheLargestClass, refreshed_importance
from tests.helpers.method_samples import LabelledRows
from tests.helpers.small_streams import Noisy, class_stream, feed, images, parameters, same, small


def test_clib_worked_refresh():
    found = refreshed_importance(
        torch.tensor([0.2, 0, -0.1, 0.4]),
        torch.tensor([1.0, 2, 0.5, 1.5]),
        torch.tensor([0.8, 1.9, 0.6, 1.2]),
        drawn=torch.tensor([0, 3, 0]),
        replaced=torch.tensor([2]),
        keep=0.9,
    )
    torch.testing.assert_close(found, torch.tensor([0.2288889, 0, -0.1, 0.4288889]))


def test_clib_first_refresh_and_empty_lists():
    importance, losses = torch.tensor([0.4, 0.2]), torch.tensor([1.0, 2.0])
    nothing = torch.zeros(0, dtype=torch.int64)
    drawn = torch.tensor([0])
    first = refreshed_importance(importance, nothing.float(), losses, drawn, nothing, 0.9)
    torch.testing.assert_close(first, torch.tensor([0.4 + 0.1 * 0.4, 0.2]))  # no change yet
    assert torch.equal(
        refreshed_importance(importance, losses, losses, nothing, nothing, 0.9), importance
    )
    replaced = torch.tensor([0, 1])  # nothing is left to compare
    again = refreshed_importance(importance, losses, losses + 9, drawn, replaced, 0.9)
    torch.testing.assert_close(again, first)
    grown = refreshed_importance(importance, losses[:1], losses - 1, drawn, nothing, 0.9)
    torch.testing.assert_close(grown, torch.tensor([0.4 + 0.1 * (1 + 0.4), 0.2]))


def clib_memory(labels, importance, **fields):
    memory = Memory(len(labels))
    y = torch.tensor(labels)
    values = {X: torch.zeros(len(y), 1), Y: y, "importance": torch.tensor(importance), **fields}
    memory.put(torch.arange(len(y)), values)
    return memory


@pytest.mark.parametrize(
    ("newcomer", "slot", "importance"),
    [
        (1, 2, (0.5 + 0.1) / 2),  # 0 is largest: its least important slot; mean of 1's others
        (2, 2, np.mean([0.3, 0.4, 0.2, 0.5, 0.1])),  # first of its class: the mean of all
        (0, 2, (0.3 + 0.4) / 2),  # its own class is largest
    ],
)
def test_clib_evicts_the_least_important_of_the_largest_class(newcomer, slot, importance):
    memory = clib_memory([0, 0, 0, 1, 1], [0.3, 0.4, 0.2, 0.5, 0.1])
    placed = LeastImportantOfTheLargestClass().place(
        SimpleNamespace(memory=memory), LabelledRows([newcomer])
    )
    assert placed.slots.tolist() == [slot]
    torch.testing.assert_close(placed.fields["importance"], torch.tensor([importance]).float())


def test_clib_newcomers_of_a_memory_with_room_start_at_their_classes_mean():
    memory = Memory(6)
    y, importance = torch.tensor([0, 0, 1]), torch.tensor([0.2, 0.4, -0.5])
    memory.put(torch.arange(3), {X: torch.zeros(3, 1), Y: y, "importance": importance})
    place = LeastImportantOfTheLargestClass().place
    placed = place(SimpleNamespace(memory=memory), LabelledRows([0, 2, 2]))
    assert placed.slots.tolist() == [3, 4, 5] and placed.rows.tolist() == [0, 1, 2]
    expected = torch.tensor([0.3, 0, 0])  # the mean of class 0; class 2 is new
    torch.testing.assert_close(placed.fields["importance"], expected)


def test_clib_takes_the_first_of_classes_of_equal_size():
    memory = clib_memory([1, 0, 1, 0], [0.1, 0.3, 0.1, 0.2])
    place = LeastImportantOfTheLargestClass().place
    assert place(SimpleNamespace(memory=memory), LabelledRows([2])).slots.tolist() == [3]


@pytest.mark.parametrize(("oldest_first", "slots"), [(False, [0, 1]), (True, [2, 0])])
def test_clib_breaks_ties_by_slot_or_by_age(oldest_first, slots):
    """Three equally important samples of the largest class; the one that is not stays."""
    fields = {"arrived": torch.tensor([5, 9, 2, 1, 3])}
    memory = clib_memory([0, 0, 0, 0, 1], [0.1, 0.1, 0.1, 0.7, 0.0], **fields)
    memory.seen = 20
    rule = LeastImportantOfTheLargestClass(oldest_first)
    placed = rule.place(SimpleNamespace(memory=memory), LabelledRows([1, 2]))
    assert placed.slots.tolist() == slots
    if oldest_first:
        assert placed.fields["arrived"].tolist() == [20, 21]


@given(st.lists(st.integers(0, 3), min_size=20, max_size=50), st.integers(4, 9), st.integers(1, 7))
@settings(max_examples=25)
def test_clib_evicts_the_oldest_as_the_public_code_does(labels, capacity, batch):
    """i-Blurry keeps a list of slots for each class, in order of arrival; all are as important."""
    memory = Memory(capacity)
    list(offer_to_clib(memory, labels, batch, oldest_first=True))
    slots_of, numbers = {label: [] for label in range(4)}, []
    for number, label in enumerate(labels):
        if len(numbers) < capacity:
            slot = len(numbers)
            numbers.append(number)
        else:
            sizes = [len(own) + (each == label) if own else -1 for each, own in slots_of.items()]
            slot = slots_of[int(np.argmax(sizes))].pop(0)
            numbers[slot] = number
        slots_of[label].append(slot)
    assert memory.field(X).flatten().tolist() == numbers


def test_clib_with_more_classes_than_slots_evicts_only_what_is_stored():
    memory = clib_memory([3, 5], [0.1, 0.2])
    place = LeastImportantOfTheLargestClass().place
    assert place(SimpleNamespace(memory=memory), LabelledRows([0])).slots.tolist() == [0]
    learner = feed(small("clib", memory=3), class_stream(10, classes=8))
    assert len(learner.memory) == 3


def offer_to_clib(memory, labels, batch, oldest_first=False):
    rule = LeastImportantOfTheLargestClass(oldest_first)
    for first in range(0, len(labels), batch):
        rows = LabelledRows(labels[first : first + batch])
        placed = rule.place(SimpleNamespace(memory=memory), rows)
        number = torch.arange(first, first + len(rows))[:, None].float()
        chosen = placed.rows
        memory.put(placed.slots, {X: number[chosen], Y: rows.y[chosen], **placed.fields})
        yield first + len(rows) - 1


@given(st.lists(st.integers(0, 4), min_size=30, max_size=60), st.integers(5, 10), st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_clib_memory_is_balanced_and_holds_the_newest(labels, capacity, batch):
    memory = Memory(capacity)
    for newest in offer_to_clib(memory, labels, batch):
        assert newest in memory.field(X).flatten().tolist()
    counts, seen = Counter(memory.field(Y).tolist()), Counter(labels)
    quota = math.ceil(capacity / len(seen))
    if min(seen.values()) >= quota and capacity >= len(seen):
        assert max(counts.values()) - min(counts[label] for label in seen) <= 1


@pytest.mark.parametrize("order", ["sequential", "interleaved"])
def test_clib_memory_is_balanced_whatever_the_order(order):
    labels = [label for label in range(6) for _ in range(9)]
    if order == "interleaved":
        labels = [index % 6 for index in range(54)]
    memory = Memory(20)
    list(offer_to_clib(memory, labels, 4))
    counts = Counter(memory.field(Y).tolist())
    assert len(counts) == 6 and max(counts.values()) - min(counts.values()) <= 1


def test_clib_refresh_leaves_the_network_alone():
    learner = small("clib:period=1", model=Noisy(), memory=8, lr=0.0, batch=4)
    feed(learner, class_stream(3))
    body = {n: v for n, v in parameters(learner).items() if "running" not in n and "num_b" not in n}
    feed(learner, class_stream(2, seed=4))
    after = parameters(learner)
    assert same(body, {name: after[name] for name in body})
    assert int(after["backbone.layers.1.num_batches_tracked"]) == 5  # one training forward a step
    assert learner.memory.field("importance").ne(0).any()
    assert learner.network.training


def test_clib_looks_at_the_whole_memory_in_eval_mode_without_augmentation():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5))
    learner = small("clib:period=1", model, memory=8, augment="crop1+flip")
    for seed in range(2):
        learner.learn(images(6, seed=seed), [0, 1, 2, 0, 1, 2])
    found = learner.method.tensors["losses"]
    with torch.no_grad():
        logits = learner.network.eval()(learner.preprocess.plain(learner.memory.field(X)))
    expected = F.cross_entropy(logits, learner.memory.field(Y), reduction="none")
    assert len(found) == 8
    torch.testing.assert_close(found, expected)


def test_clib_refreshes_every_period_and_forgets_what_was_drawn():
    learner, drawn = small("clib:period=3", memory=8, batch=2, replay_batch=2), []
    for x, labels in class_stream(7):
        learner.learn(x, labels)
        drawn.append(len(learner.method.tensors.get("drawn", ())))
    assert drawn == [4, 8, 0, 4, 8, 0, 4]
