"""ER-Up and ER-Down, and the balanced draws that they are made of."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evenstream.core.memory import X
from evenstream.methods.parts.balanced import balanced_slots, slots_per_class
from tests.helpers.method_samples import watch_groups
from tests.helpers.small_streams import class_stream, feed, parameters, same, small


def trained_labels(learner, stream):
    """Labels of the rows of each step, incoming and replayed apart."""
    seen = watch_groups(learner)
    feed(learner, stream)
    return [[group.y.tolist() for group in groups] for groups in seen]


def test_er_up_gives_every_old_class_the_quota():
    stream = class_stream(12, batch=6, classes=6)
    seen = trained_labels(small("er-up", memory=30), stream)
    assert seen[0][1] == []  # ER at the first step
    for (incoming, replayed), (_, labels) in zip(seen, stream, strict=True):
        assert len(incoming) == len(labels)  # all of the batch is used
        present, old = set(incoming), Counter(replayed)
        assert not present & set(old)
        assert set(old.values()) <= {math.ceil(6 / len(present))}
    assert sum(len(replayed) for _, replayed in seen) > 0


@pytest.mark.parametrize(("now", "classes", "rows"), [(2, 10, 32 + 8 * 16), (10, 100, 32 + 90 * 4)])
def test_er_up_batch_sizes_of_the_paper(now, classes, rows):
    """C-CIFAR10 in its fifth task, C-CIFAR100 in its tenth."""
    learner = small("er-up", model=nn.Flatten(), memory=3 * classes, lr=0.0)
    learner.learn(np.zeros((3 * classes, 1)), [c for c in range(classes) for _ in range(3)])
    present = [classes - 1 - index % now for index in range(32)]
    assert learner.learn(np.zeros((32, 1)), present).rows == rows


def test_er_down_keeps_few_incoming_rows_and_the_same_memory():
    stream = class_stream(12, batch=6, classes=6)
    learner, plain = small("er-down", memory=8), small("er", memory=8)
    seen = trained_labels(learner, stream)
    feed(plain, stream)
    for number, (incoming, _) in enumerate(seen):
        n_classes = len({label for _, labels in stream[: number + 1] for label in labels})
        assert max(Counter(incoming).values()) <= max(1, 4 // n_classes)
        assert len(set(incoming)) == len(set(stream[number][1]))  # no class is dropped
    assert torch.equal(learner.memory.field(X), plain.memory.field(X))


def test_er_up_and_er_down_start_as_er_on_the_rows_that_they_keep():
    x, labels = class_stream(1, batch=6)[0]
    up, down, plain, few = (small(m) for m in ("er-up", "er-down", "er", "er"))
    seen = watch_groups(down)
    for learner in (up, down, plain):
        learner.learn(x, labels)
    assert same(parameters(up), parameters(plain))
    kept = seen[0][0]
    few.learn(kept.raw.numpy(), [down.labels[index] for index in kept.y])
    assert same(parameters(down), parameters(few))


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 5), st.booleans())
def test_slots_per_class_draws_the_quota(labels, quota, replacement):
    generator = torch.Generator().manual_seed(0)
    values = torch.tensor(labels, dtype=torch.int64)
    chosen = slots_per_class(values, quota, generator, replacement=replacement)
    found, there = Counter(values[chosen].tolist()), Counter(labels)
    for label, count in there.items():
        assert found[label] == (quota if replacement else min(quota, count))
    if not replacement:
        assert len(set(chosen.tolist())) == len(chosen)


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 9), st.integers(0, 99))
def test_balanced_draws_are_as_even_as_can_be(labels, count, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.tensor(labels, dtype=torch.int64)
    chosen = balanced_slots(values, count, generator)
    assert len(chosen) == (count if labels else 0)
    found = Counter(values[chosen].tolist())
    assert max((found[a] - found[b] for a in labels for b in labels), default=0) <= 1
