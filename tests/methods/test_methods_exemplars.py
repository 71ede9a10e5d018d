"""What offline methods keep at task ends: as many of each class, at random or by herding."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream.methods.parts.exemplars import choose_exemplars, herd, herding_order


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def counts_of(groups, chosen):
    return torch.bincount(groups[chosen], minlength=int(groups.max()) + 1).tolist()


@pytest.mark.parametrize(
    ("classes_a_task", "expected"),
    [
        (2, [50, 25, 16, 12, 10]),
        (10, [10, 5, 3, 2, 2, 1, 1, 1, 1, 1]),
        (20, [5, 2, 1, 1, 1, 1, 1, 1, 1, 1]),  # from the sixth task on, for 100 of the classes
    ],
)
def test_the_quotas_of_a_memory_of_100(classes_a_task, expected):
    for task, quota in enumerate(expected):
        classes = classes_a_task * (task + 1)
        groups = torch.arange(classes).repeat(60)
        counts = counts_of(groups, choose_exemplars(groups, 100, generator(task)))
        assert sorted(set(counts)) == ([quota] if classes <= 100 else [0, 1])
        assert sum(counts) == quota * min(classes, 100)


@given(
    groups=st.lists(st.integers(0, 8), max_size=60),
    capacity=st.integers(1, 20),
    seed=st.integers(0, 3),
)
def test_exemplars_are_distinct_balanced_and_fit(groups, capacity, seed):
    groups = torch.tensor(groups, dtype=torch.int64)
    chosen = choose_exemplars(groups, capacity, generator(seed))
    assert len(set(chosen.tolist())) == len(chosen) <= capacity
    if not len(groups):
        return
    there, kept = torch.bincount(groups), torch.tensor(counts_of(groups, chosen))
    present = int((there > 0).sum())
    if present <= capacity:
        assert kept.tolist() == there.clamp(max=capacity // present).tolist()
    else:
        assert len(chosen) == capacity and int(kept.max()) == 1


def test_which_exemplars_is_random_unless_an_order_is_given():
    groups = torch.tensor([0, 1] * 20)
    assert len({tuple(choose_exemplars(groups, 4, generator(s)).tolist()) for s in range(8)}) > 4
    order = torch.tensor([9, 7, 4, 5, 0, 2])
    assert choose_exemplars(groups, 4, generator(), order).tolist() == [4, 0, 9, 7]


def test_lucky_classes_are_random_when_there_are_more_than_room():
    groups = torch.arange(30)
    lucky = [frozenset(choose_exemplars(groups, 10, generator(seed)).tolist()) for seed in range(8)]
    assert len(set(lucky)) == 8


@given(seed=st.integers(0, 30), n=st.integers(1, 9), count=st.integers(1, 9))
def test_herding_greedily_keeps_the_mean(seed, n, count):
    points = F.normalize(torch.randn(n, 4, generator=generator(seed), dtype=torch.float64), dim=1)

    def distance(chosen):
        return float((points.mean(0) - points[chosen].mean(0)).norm())

    herded = herd(points, count).tolist()
    assert len(set(herded)) == len(herded) == min(n, count)
    for k, chosen in enumerate(herded):  # ties may go either way
        best = min(distance([*herded[:k], i]) for i in range(n) if i not in herded[:k])
        assert distance([*herded[:k], chosen]) <= best + 1e-12


def test_herding_goes_class_by_class_and_ignores_the_features_length():
    features = torch.tensor([[1, 0.1], [1, 1], [5, 5], [0, 1], [2, 1.9], [0, 3]])
    labels = torch.tensor([0, 0, 1, 0, 1, 1])
    order = herding_order(features, labels, 2)
    assert order.tolist() == [1, 3, 2, 5]  # first the one nearest to the mean direction
    lengths = torch.tensor([3.0, 1, 2, 7, 1, 5]).unsqueeze(1)
    assert torch.equal(herding_order(features * lengths, labels, 2), order)
