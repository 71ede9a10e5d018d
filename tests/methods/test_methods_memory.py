"""Methods that differ from ER in what they keep and replay: MRO, CLIB, ASER, ER-Up, ER-Down."""

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import next_step, watch_groups
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from evenstream.errors import InputError
from evenstream.learner.memory import Memory, X, Y
from evenstream.methods import make_method
from evenstream.methods.aser import AdversarialShapley, HighestShapleyValues, features
from evenstream.methods.clib import LeastImportantOfTheLargestClass, refreshed_importance
from evenstream.methods.parts.balanced import balanced_slots, slots_per_class
from evenstream.methods.parts.shapley import knn_shapley, squared_distances
from small_streams import DIM, Noisy, blobs, class_stream, feed, images, parameters, same, small

# ---- MRO -----------------------------------------------------------------------------------------


def test_mro_never_looks_at_the_incoming_images():
    first, second, *_ = class_stream(4)
    one, other = (feed(small("mro", batch=4), [first]) for _ in range(2))
    untrained = parameters(one)
    assert one.learn(*second).rows == 4
    other.learn(second[0] + 100, second[1])
    assert same(parameters(one), parameters(other)) and not same(parameters(one), untrained)
    with pytest.raises(InputError, match="cannot do without a memory"):
        small("mro", memory=0)


def test_mro_makes_no_update_before_it_has_a_memory():
    learner, idle = small("mro"), small("fine-tune", lr=0.0)
    x, labels = class_stream(1)[0]
    result = learner.learn(x, labels)
    idle.learn(x, labels)
    assert (result.loss, result.rows) == (None, 0)
    assert same(parameters(learner), parameters(idle))


@pytest.mark.parametrize(("spec", "rows"), [("mro", 4 + 6), ("mro:rows=3", 3), ("mro:rows=99", 20)])
def test_mro_replays_as_many_rows_as_asked_each_once(spec, rows):
    learner = feed(small(spec, batch=4, replay_batch=6, memory=20), class_stream(6))
    seen = watch_groups(learner)
    assert learner.learn(*class_stream(7)[-1]).rows == rows
    assert len(set(seen[0][0].slots.tolist())) == rows


def test_mro_can_update_first():
    learner = small("mro:update_first=true")
    x, labels = class_stream(1)[0]
    result = learner.learn(x, labels)
    assert result.rows == 4 and result.loss > 0


def test_mro_on_its_whole_memory_is_full_batch_training_of_the_prefix():
    torch.manual_seed(0)
    module = nn.Linear(DIM, 6)
    learner = small("mro:rows=1000", model=module, memory=100)
    x, y = blobs(12, classes=3)
    learner.learn(x, y)  # all three classes are there
    weights = [p.detach().clone().requires_grad_() for p in learner.network.parameters()]
    for start in (4, 8, 12):
        learner.learn(*blobs(4, classes=3, seed=start))
        prefix, labels = blobs(12, classes=3)
        for earlier in range(4, start, 4):
            more, also = blobs(4, classes=3, seed=earlier)
            prefix, labels = np.concatenate([prefix, more]), labels + also
        index = torch.tensor([learner.labels.index(label) for label in labels])
        hidden = F.linear(torch.from_numpy(prefix), weights[0], weights[1])
        loss = F.cross_entropy(F.linear(hidden, weights[2], weights[3]), index)
        steps = torch.autograd.grad(loss, weights)
        weights = [
            (w - 0.05 * g).detach().requires_grad_() for w, g in zip(weights, steps, strict=True)
        ]
        for mine, theirs in zip(learner.network.parameters(), weights, strict=True):
            torch.testing.assert_close(mine, theirs)


def test_mro_cannot_teach_a_class_that_never_entered_the_memory():
    """Its softmax may push the class down (plain), but nothing pulls it up; LAS leaves it alone."""
    for spec, falls in (("mro", True), ("mro-las", False)):
        learner = feed(small(spec, nn.Flatten()), class_stream(2, classes=2))
        drawn = small("fine-tune", nn.Flatten(), lr=0.0, head_size=3)
        x, labels = class_stream(1)[0]
        drawn.learn(x, labels)
        learner.learn(x, ["new"] * len(labels))
        change = (learner.network.head.bias - drawn.network.head.bias)[2]
        assert (change < 0) if falls else (change == 0)


# ---- CLIB ----------------------------------------------------------------------------------------


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


class Rows:
    """Only labels."""

    def __init__(self, y):
        self.y = torch.tensor(y)

    def __len__(self):
        return len(self.y)


def clib_memory(labels, importance):
    memory = Memory(len(labels))
    y = torch.tensor(labels)
    values = {X: torch.zeros(len(y), 1), Y: y, "importance": torch.tensor(importance)}
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
        SimpleNamespace(memory=memory), Rows([newcomer])
    )
    assert placed.slots.tolist() == [slot]
    torch.testing.assert_close(placed.fields["importance"], torch.tensor([importance]).float())


def test_clib_newcomers_of_a_memory_with_room_start_at_their_classes_mean():
    memory = Memory(6)
    y, importance = torch.tensor([0, 0, 1]), torch.tensor([0.2, 0.4, -0.5])
    memory.put(torch.arange(3), {X: torch.zeros(3, 1), Y: y, "importance": importance})
    place = LeastImportantOfTheLargestClass().place
    placed = place(SimpleNamespace(memory=memory), Rows([0, 2, 2]))
    assert placed.slots.tolist() == [3, 4, 5] and placed.rows.tolist() == [0, 1, 2]
    expected = torch.tensor([0.3, 0, 0])  # the mean of class 0; class 2 is new
    torch.testing.assert_close(placed.fields["importance"], expected)


def test_clib_takes_the_first_of_classes_of_equal_size():
    memory = clib_memory([1, 0, 1, 0], [0.1, 0.3, 0.1, 0.2])
    place = LeastImportantOfTheLargestClass().place
    assert place(SimpleNamespace(memory=memory), Rows([2])).slots.tolist() == [3]


def test_clib_with_more_classes_than_slots_evicts_only_what_is_stored():
    memory = clib_memory([3, 5], [0.1, 0.2])
    place = LeastImportantOfTheLargestClass().place
    assert place(SimpleNamespace(memory=memory), Rows([0])).slots.tolist() == [0]
    learner = feed(small("clib", memory=3), class_stream(10, classes=8))
    assert len(learner.memory) == 3


def offer_to_clib(memory, labels, batch):
    rule = LeastImportantOfTheLargestClass()
    for first in range(0, len(labels), batch):
        rows = Rows(labels[first : first + batch])
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
        learner.seen = [groups[1].slots.tolist() for groups in seen]
    assert aser.seen == er.seen
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
    step, current = SimpleNamespace(memory=memory, n_classes=4), Rows([0, 1, 2, 3])
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


# ---- ER-Up, ER-Down ------------------------------------------------------------------------------


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


# ---- fine-tuning ---------------------------------------------------------------------------------


def test_fine_tuning_has_no_memory_and_starts_as_er():
    tuned, er = small("fine-tune", memory=500), small("er")
    x, labels = class_stream(1)[0]
    tuned.learn(x, labels)
    er.learn(x, labels)
    assert tuned.memory.capacity == 0 and tuned.memory.fields == ()
    assert same(parameters(tuned), parameters(er))
    assert not make_method("fine-tune").uses_memory


def test_fine_tuning_predicts_the_last_tasks_classes():
    learner = feed(small("fine-tune", lr=0.3), class_stream(60, batch=8))
    x, _ = zip(*class_stream(20, seed=1), strict=True)
    guesses = Counter(learner.predict(np.concatenate(x)))
    assert guesses["class 2"] + guesses["class 3"] >= 0.9 * sum(guesses.values())
