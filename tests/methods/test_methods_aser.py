"""ASER: KNN-Shapley values, and what is retrieved and replaced by them."""

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from evenstream.core.memory import Memory, X, Y
from evenstream.methods.aser import AdversarialShapley, HighestShapleyValues, features
from evenstream.methods.parts.shapley import knn_shapley, squared_distances
from tests.helpers.method_samples import LabelledRows, next_step, watch_groups
from tests.helpers.small_streams import Noisy, class_stream, feed, images, parameters, small

# ---- KNN-Shapley ---------------------------------------------------------------------------------


def values_of(matches, neighbours):
    n = len(matches)
    candidates = torch.arange(1.0, n + 1)[:, None]
    labels = torch.tensor(matches)
    return knn_shapley(torch.zeros(1, 1), torch.tensor([1]), candidates, labels, neighbours)[0]


def brute_force_shapley(matches, neighbours):
    n = len(matches)

    def utility(coalition):
        nearest = sorted(coalition)[:neighbours]
        return sum(matches[i] for i in nearest) / neighbours

    values = [0.0] * n
    for player in range(n):
        others = [i for i in range(n) if i != player]
        for size in range(n):
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for coalition in itertools.combinations(others, size):
                values[player] += weight * (utility([*coalition, player]) - utility(coalition))
    return torch.tensor(values)


def test_shapley_worked_numbers():
    for k, expected in ((2, [0.25, -0.25, 0.25, 0.25, 0]), (3, [0.25, -1 / 12, 0.25, 0.25, 0])):
        torch.testing.assert_close(values_of([1, 0, 1, 1, 0], k), torch.tensor(expected))
        torch.testing.assert_close(brute_force_shapley([1, 0, 1, 1, 0], k), torch.tensor(expected))
    torch.testing.assert_close(values_of([1, 0, 1], 5), torch.tensor([0.2, 0, 0.2]))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.integers(1, 7))
def test_shapley_agrees_with_brute_force(matches, neighbours):
    found = values_of(matches, neighbours)
    torch.testing.assert_close(found, brute_force_shapley(matches, neighbours))
    assert math.isclose(float(found.sum()), sum(matches[:neighbours]) / neighbours, abs_tol=1e-6)


def test_shapley_of_equally_far_candidates_goes_by_their_order():
    at, labels = torch.zeros(1, 1), torch.tensor([1, 0, 1])
    tied = knn_shapley(at, torch.tensor([1]), torch.ones(3, 1), labels, 1)[0]
    torch.testing.assert_close(tied, values_of([1, 0, 1], 1))


def test_distances_by_the_gram_matrix():
    a, b = torch.randn(5, 8), torch.randn(7, 8)
    torch.testing.assert_close(squared_distances(a, b), torch.cdist(a, b).square())
    assert squared_distances(a, a).ge(0).all()


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that is made."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for value in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(value, torch.Tensor):
                self.numbers = max(self.numbers, value.numel())
        return made


def test_no_tensor_of_points_times_candidates_times_features_is_made():
    points, candidates = torch.randn(6, 50), torch.randn(7, 50)
    y = torch.arange(7) % 2
    with Largest() as seen:
        knn_shapley(points, y[:6], candidates, y, 3)
    assert 0 < seen.numbers <= 7 * 50 < 6 * 7 * 50


# ---- ASER ----------------------------------------------------------------------------------------


CANDIDATES = ([0.9, 0.2, -0.4, 1.5, 0.1], [1, 0, 0, 0, 1])


def test_shapley_of_the_two_sided_example():
    x, y = torch.tensor(CANDIDATES[0])[:, None], torch.tensor(CANDIDATES[1])
    coop = knn_shapley(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), x, y, 2)
    adv = knn_shapley(torch.tensor([[0.5]]), torch.tensor([1]), x, y, 2)
    expected = torch.tensor(
        [[-0.05, 0.2833, 0.2833, 0.2, -0.2167], [0.4167, -0.0833, 0, -0.0833, 0.25]]
    )
    torch.testing.assert_close(coop, expected, rtol=0, atol=1e-4)
    opposed = torch.tensor([[0.3333, -0.1667, 0, 0, 0.3333]])
    torch.testing.assert_close(adv, opposed, rtol=0, atol=1e-4)
    score = torch.tensor([-0.15, 0.2667, 0.1417, 0.0583, -0.3167])
    torch.testing.assert_close(coop.mean(0) - adv.mean(0), score, rtol=0, atol=1e-4)


def identity_learner(spec, x, labels):
    """A learner whose features are its inputs, with exactly these samples in a full memory."""
    learner = small(spec, model=nn.Flatten(), memory=len(x), lr=0.0)
    learner.learn(np.asarray(x, dtype=np.float32)[:, None], labels)
    return learner


@pytest.mark.parametrize(
    ("friends", "order"), [([0.0, 1.0], [1, 2, 3, 0, 4]), ([], [1, 2, 3, 0, 4])]
)
def test_aser_retrieves_in_the_order_of_the_worked_example(monkeypatch, friends, order):
    x, y = CANDIDATES
    learner = identity_learner("aser", [*x, *friends], [*y, 0, 1][: len(x) + len(friends)])
    labels = [learner.labels.index(label) for label in y]
    assert learner.memory.field(Y)[:5].tolist() == labels
    draws = iter([torch.arange(5), torch.arange(len(friends))])
    monkeypatch.setattr("evenstream.methods.aser.slots_per_class", lambda *_, **__: next(draws))
    step = next_step(learner, np.full((1, 1), 0.5, dtype=np.float32), [1])
    picked = AdversarialShapley(2, 6, "others").pick(step, 5)
    assert picked.slots.tolist() == order


@pytest.mark.parametrize(("friends", "with_memory"), [("any", True), ("others", False)])
def test_aser_in_a_memory_that_the_candidates_use_up(friends, with_memory):
    """Candidates are friends, too; in the references none are left, and only the batch counts."""
    x, y = [0.0, 0.2, 1.0, 1.3, 5.0, 5.4], ["a", "a", "b", "b", "c", "c"]
    learner = identity_learner(f"aser:friends={friends},neighbours=2", x, y)
    step = next_step(learner, np.array([[0.6], [0.7]], dtype=np.float32), ["a", "b"])
    stored, labels = learner.memory.field(X)[:, 0], learner.memory.field(Y)
    incoming = step.incoming.raw[:, 0]

    def values(points, their_labels):
        return knn_shapley(points[:, None], their_labels, stored[:, None], labels, 2).mean(0)

    score = -values(incoming, step.incoming.y)
    if with_memory:
        score = score + values(stored, labels)
    picked = learner.method.retrieval.pick(step, 3).slots
    assert set(picked.tolist()) == set(score.argsort(descending=True)[:3].tolist())


def test_aser_is_uniform_until_the_memory_is_full():
    stream = class_stream(3)
    aser, er = small("aser", memory=12), small("er", memory=12)
    for learner in (aser, er):
        seen = watch_groups(learner)
        feed(learner, stream)
        learner.seen = [groups[1].slots.tolist() for groups in seen]  # type: ignore[attr-defined]
    assert aser.seen == er.seen  # type: ignore[attr-defined]
    assert torch.equal(aser.memory.field(X), er.memory.field(X))  # free slots first, in order


def test_aser_update_lets_in_what_speaks_for_its_class():
    """A stored sample amid another class gives way to one that is where its own class is."""
    x = [0.0, 0.1, 0.2, 0.3, 5.0, 5.1, 5.2, 5.3, 5.15, 0.15]
    y = ["a", "a", "a", "a", "b", "b", "b", "b", "a", "b"]  # the last two are in the wrong place
    learner = identity_learner("aser:per_class=3,neighbours=3", x, y)
    incoming = next_step(learner, np.array([[0.05], [5.05]], dtype=np.float32), ["a", "b"])
    rule = HighestShapleyValues(3, 3)
    evicted = Counter()
    for _ in range(40):
        slots, rows = rule.replacements(incoming, incoming.incoming)
        assert len(slots) == len(rows) <= 2
        evicted.update(slots.tolist())
    outliers = evicted[8] + evicted[9]
    assert outliers > 0 and outliers >= 0.5 * sum(evicted.values())


def test_aser_update_replaces_one_to_one_what_is_worth_least(monkeypatch):
    """With a sample's own number as its value: the best as many as were there stay, no others."""
    asked = []

    def values(points, _, candidates, __, neighbours):
        asked.append((points[:, 0].tolist(), candidates[:, 0].tolist(), neighbours))
        return candidates[:, 0].expand(len(points), -1)

    monkeypatch.setattr("evenstream.methods.aser.knn_shapley", values)
    x = [5.0, 1, 4, 3, 9, 8, 7, 2]
    learner = identity_learner("aser", x, ["a"] * 4 + ["b"] * 4)
    incoming = np.array([[6.0], [0.5]], dtype=np.float32)
    step = next_step(learner, incoming, ["a", "b"])
    slots, rows = HighestShapleyValues(5, 2).replacements(step, step.incoming)
    ((points, candidates, neighbours),) = asked
    stored = candidates[:-2]
    assert candidates[-2:] == [6.0, 0.5] and neighbours == 5
    assert len(stored) == 2 * 2 and not set(stored) & set(points)  # per_class of two classes
    kept = sorted(candidates)[-len(stored) :]
    assert rows.tolist() == [row for row, value in enumerate([6.0, 0.5]) if value in kept]
    assert sorted(x[slot] for slot in slots) == sorted(set(stored) - set(kept))


def test_aser_update_counts_rare_classes_of_the_batch_among_the_judges():
    """The threshold is between 0 and an even share: new classes are below it, large ones never."""
    memory = Memory(20)
    memory.put(torch.arange(20), {Y: torch.tensor([0] * 10 + [1] * 8 + [2] * 2)})
    step, current = SimpleNamespace(memory=memory, n_classes=4), LabelledRows([0, 1, 2, 3])
    rule, own = HighestShapleyValues(5, 6), torch.Generator().manual_seed(0)
    found = [rule.minority(step, current, own).tolist() for _ in range(200)]
    assert {tuple(rows) for rows in found} == {
        (False, False, False, True),
        (False, False, True, True),
    }
    rare = np.mean([rows[2] for rows in found])  # a share of 0.1 is below U(0, 0.25) in 60 %
    assert 0.48 < rare < 0.72


def test_aser_features_are_of_plain_images_in_eval_mode():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5))
    learner = small("aser", model, memory=6, augment="crop1+flip")
    learner.learn(images(6), [0, 1, 2, 0, 1, 2])
    step = next_step(learner, images(3, seed=1), [0, 1, 2])
    found = features(step, step.incoming)
    assert learner.network.training and not found.requires_grad
    with torch.no_grad():
        expected = learner.network.eval().features(step.incoming.plain())
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("memory", [3, 9, 30])
def test_aser_keeps_its_size_and_leaves_batchnorm_alone(memory):
    learner = small("aser:per_class=2", model=Noisy(), memory=memory)
    stream = class_stream(14, batch=4, classes=6)
    for number, (x, labels) in enumerate(stream, 1):
        learner.learn(x, labels)
        assert len(learner.memory) == min(memory, 4 * number)
    assert int(parameters(learner)["backbone.layers.1.num_batches_tracked"]) == len(stream)
    counts = learner.memory.class_counts
    assert torch.equal(counts, torch.bincount(learner.memory.field(Y), minlength=len(counts)))
    assert counts[4:].sum() > 0  # the last classes got in, also where every slot judges
