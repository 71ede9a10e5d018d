"""The replay methods against the worked numbers and properties of their papers' descriptions."""

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
from torch import nn

from evenstream import CrossEntropy
from evenstream.errors import InputError
from evenstream.learner.classifier import Classifier, GrowingHead
from evenstream.learner.memory import Memory
from evenstream.methods import make_method, method_names
from evenstream.methods.clib import LeastImportantOfTheLargestClass, refreshed_importance
from evenstream.methods.er_cba import Adaptor, outer_loss
from evenstream.methods.er_cbl import class_weights
from evenstream.methods.mir import MaximallyInterfered
from evenstream.methods.ocs import cosines, selection_scores
from evenstream.methods.parts.balanced import slots_per_class
from evenstream.methods.parts.per_sample import full_gradients, head_errors, head_gradients
from evenstream.methods.parts.shapley import knn_shapley, squared_distances
from small_streams import DIM, Noisy, class_stream, feed, parameters, same, small

EXACT = {"rtol": 0, "atol": 2e-6}


class Group:
    """Rows whose view is given; with the identity as network, the logits."""

    def __init__(self, x, y, **fields):
        self.x = torch.tensor(x, dtype=torch.float32, requires_grad=True)
        self.y, self.fields = torch.tensor(y), fields

    def __len__(self):
        return len(self.y)


def step_of(*groups, **more):
    """What a loss reads, with the identity as network and plain cross-entropy."""
    criterion = CrossEntropy()
    return SimpleNamespace(
        incoming=groups[0], groups=groups, net=lambda x: x, ce=criterion.score,
        remember=lambda **fields: None, notes={},
        joint=lambda: (torch.cat([g.x for g in groups]), torch.cat([g.y for g in groups])),
        **more,
    )  # fmt: skip


def assert_value(found, expected):
    torch.testing.assert_close(float(found.detach()), expected, rtol=0, atol=2e-6)


# ---- ER-ACE --------------------------------------------------------------------------------------


def test_er_ace_worked_numbers():
    incoming = Group([[1.0, 0, 2, 0.5], [0, 0, 0, 0]], [2, 3])
    replayed = Group([[0.3, 1.2, 4, -1]], [1])
    loss = make_method("er-ace").loss(step_of(incoming, replayed))
    loss.backward()
    assert_value(loss, (0.2014133 + math.log(2)) / 2 + 2.8882595)
    half = torch.tensor([0, 0, -0.1824255, 0.1824255]) / 2
    torch.testing.assert_close(incoming.x.grad[0], half, **EXACT)
    assert incoming.x.grad[:, :2].eq(0).all()
    expected = torch.tensor([0.0226350, -0.9443270, 0.9155233, 0.0061687])
    torch.testing.assert_close(replayed.x.grad[0], expected, **EXACT)


def test_er_ace_learns_nothing_from_one_incoming_class_alone():
    incoming, nothing = Group([[1.0, 3, 2], [0, 1, 2]], [2, 2]), Group(np.zeros((0, 3)), [])
    loss = make_method("er-ace").loss(step_of(incoming, nothing))
    loss.backward()
    assert float(loss.detach()) == 0 and incoming.x.grad.eq(0).all()


# ---- DER++ ---------------------------------------------------------------------------------------


def test_derpp_worked_number():
    labelled = Group([[0.2, 0.1, 0]], [0])
    distilled = Group([[0.5, 1, -0.5]], [0], logits=torch.tensor([[0.0, 2, -1]]))
    step = step_of(Group([[1.0, 0, 0]], [2]), labelled)
    step.notes["distilled"] = distilled
    assert_value(make_method("der++").loss(step), 2.1024161)


def test_derpp_stores_the_logits_from_before_the_step():
    learner = small("der++", memory=4)
    x, labels = class_stream(1)[0]
    learner.learn(x, labels)
    fresh = small("der++", memory=4)
    fresh.learn(x, labels)
    stored = fresh.memory.field("logits")
    untrained = small("fine-tune", lr=0.0)
    untrained.learn(x, labels)
    before = untrained.network(untrained.preprocess.plain(torch.from_numpy(x)))
    torch.testing.assert_close(stored, before.detach())
    assert not stored.requires_grad


# ---- SS-IL ---------------------------------------------------------------------------------------


def test_ss_il_worked_numbers():
    method = make_method("ss-il")
    incoming = Group([[1.0, 0, 2, 0.5], [0.0, 0, 0, 50]], [2, 3])  # the second makes 3 present
    replayed = Group([[0.3, 1.2, 4, -1]], [1])
    assert_value(method.loss(step_of(incoming, replayed)) * 3, 0.2014133 + 0.3411539)
    old = torch.tensor([[1.5, 0.2], [0.1, 1.0]])
    method.modules["teacher"] = lambda x: old
    logits = torch.tensor([[1.0, 0, 2, 0.5], [0.3, 1.2, 4, -1]])
    absent = torch.tensor([True, True, False, False])
    assert_value(method.distillation(logits, logits, absent), 0.0051464)
    method.modules["teacher"] = lambda x: logits[:, :2]
    assert_value(method.distillation(logits, logits, absent), 0.0)


def test_ss_il_groups_do_not_touch_each_other():
    incoming, replayed = Group([[1.0, 0, 2, 0.5]], [2]), Group([[0.3, 1.2, 4, -1]], [1])
    make_method("ss-il").loss(step_of(incoming, replayed)).backward()
    assert incoming.x.grad[0, [0, 1, 3]].eq(0).all()
    assert replayed.x.grad[0, 2] == 0 and replayed.x.grad[0, 3] != 0


def test_ss_il_teacher_is_renewed_every_so_many_steps_and_never_changes_between():
    learner = small("ss-il:refresh=3", model=Noisy())
    seen = []
    for x, labels in class_stream(9):
        learner.learn(x, labels)
        teacher = learner.method.modules.get("teacher")
        seen.append(
            None if teacher is None else {k: v.clone() for k, v in teacher.state_dict().items()}
        )
    assert seen[:2] == [None, None]
    assert same(seen[2], seen[3]) and same(seen[2], seen[4]) and not same(seen[4], seen[5])


# ---- MIR -----------------------------------------------------------------------------------------


def linear(weight):
    """A classifier without bias on identity features."""
    weight = torch.tensor(weight, dtype=torch.float32)
    head = GrowingHead(weight.shape[1], seed=0, size=len(weight))
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.zero_()
    head.bias.requires_grad_(False)
    return Classifier(nn.Identity(), head, torch.float32)


def test_mir_order_of_the_worked_example(monkeypatch):
    candidates = Group([[0.0, 1], [1, 0], [1, 1], [0, 2]], [1, 0, 1, 1])
    candidates.take = lambda index: index.tolist()
    monkeypatch.setattr("evenstream.methods.mir.Uniform.pick", lambda *_: candidates)
    incoming = Group([[1.0, 1]], [0])
    step = SimpleNamespace(network=linear([[1, 0], [0, 1]]), incoming=incoming, lr=1.0)
    assert MaximallyInterfered(4).pick(step, 3) == [2, 3, 0]


def test_mir_retrieval_leaves_network_and_batchnorm_alone_and_takes_the_scored_views():
    learner = feed(small("mir:subsample=10", model=Noisy(), memory=12), class_stream(8))
    before = parameters(learner)
    x, labels = class_stream(9)[-1]
    taken = {}

    choose = learner.method.training_rows

    def training_rows(step):
        groups = choose(step)
        taken.update(made=groups[1].made, before=parameters(learner), slots=groups[1].slots)
        return groups

    learner.method.training_rows = training_rows
    learner.learn(x, labels)
    assert same(taken["before"], before)
    assert taken["made"] is not None and len(set(taken["slots"].tolist())) == 4


def test_mir_las_selects_as_mir_does():
    picked = []
    for name in ("mir", "mir-las"):
        learner = small(f"{name}:subsample=8", memory=12, lr=0.0)
        learner.method.stored_rows = lambda step: picked.append(step.groups[1].slots.tolist())
        feed(learner, class_stream(6))
    assert picked[:6] == picked[6:]


# ---- OCS -----------------------------------------------------------------------------------------


def test_ocs_worked_numbers():
    g = torch.tensor([[1.0, 0], [0.8, 0.6], [0, 2], [-1, 0]])
    c = torch.tensor([1.0, 1])
    assert selection_scores(g, c, 0.0).argsort(descending=True).tolist() == [2, 1, 0, 3]
    expected = torch.tensor([707.201, 990.358, 707.663, -707.201])
    torch.testing.assert_close(selection_scores(g, c, 1000.0), expected, rtol=0, atol=1e-3)
    scaled = g * torch.tensor([[1.0], [5], [0.1], [2]])
    torch.testing.assert_close(cosines(scaled, c[None]), cosines(g, c[None]))
    assert cosines(torch.zeros(1, 2), c[None]).eq(0).all()


def test_per_sample_gradients_agree_with_one_backward_a_row():
    torch.manual_seed(0)
    network = Classifier(nn.Linear(3, 4), GrowingHead(4, seed=0, size=3), torch.float32).eval()
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    full, head = full_gradients(network, x, y), head_gradients(network, x, y)
    for row in range(5):
        loss = F.cross_entropy(network(x[row : row + 1]), y[row : row + 1])
        every = torch.autograd.grad(loss, list(network.parameters()))
        torch.testing.assert_close(full[row], torch.cat([g.flatten() for g in every]))
        together = torch.cat([every[-2], every[-1][:, None]], 1).flatten()
        torch.testing.assert_close(head[row], together)
    delta, features = head_errors(network, x, y)
    torch.testing.assert_close(head @ head.T, (delta @ delta.T) * (features @ features.T + 1))


def test_ocs_that_keeps_everything_is_er():
    kept, plain = (feed(small(m, model=Noisy()), class_stream(10)) for m in ("ocs:keep=1", "er"))
    assert same(parameters(kept), parameters(plain))


@pytest.mark.parametrize("gradients", ["head", "full"])
def test_ocs_trains_on_and_stores_half_of_each_batch(gradients):
    learner = small(f"ocs:gradients={gradients}", memory=100)
    for x, labels in class_stream(5, batch=6):
        assert learner.learn(x, labels).rows <= 3 + 4
    assert len(learner.memory) == 15


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
    for order in itertools.permutations(range(n)):
        for position, player in enumerate(order):
            before = order[:position]
            values[player] += utility([*before, player]) - utility(before)
    return torch.tensor(values) / math.factorial(n)


def test_shapley_worked_numbers():
    for k, expected in ((2, [0.25, -0.25, 0.25, 0.25, 0]), (3, [0.25, -1 / 12, 0.25, 0.25, 0])):
        torch.testing.assert_close(values_of([1, 0, 1, 1, 0], k), torch.tensor(expected))
    torch.testing.assert_close(values_of([1, 0, 1], 5), torch.tensor([0.2, 0, 0.2]))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=5), st.integers(1, 6))
def test_shapley_agrees_with_brute_force(matches, neighbours):
    found = values_of(matches, neighbours)
    torch.testing.assert_close(found, brute_force_shapley(matches, neighbours))
    assert math.isclose(float(found.sum()), sum(matches[:neighbours]) / neighbours, abs_tol=1e-6)


def test_shapley_of_the_two_sided_example():
    x, y = torch.tensor([0.9, 0.2, -0.4, 1.5, 0.1])[:, None], torch.tensor([1, 0, 0, 0, 1])
    coop = knn_shapley(torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1]), x, y, 2)
    adv = knn_shapley(torch.tensor([[0.5]]), torch.tensor([1]), x, y, 2)
    score = coop.mean(0) - adv.mean(0)
    expected = torch.tensor([-0.15, 0.2667, 0.1417, 0.0583, -0.3167])
    torch.testing.assert_close(score, expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(squared_distances(x, x), (x - x.T).square(), rtol=1e-5, atol=1e-6)


# ---- ER-OBC, ER-WN, ER-Up, ER-Down, MRO ----------------------------------------------------------


def normed():
    """A module with BatchNorm but without dropout, whose extra forwards draw nothing."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(DIM, 7), nn.BatchNorm1d(7), nn.ReLU())


def test_er_obc_moves_the_head_twice_and_the_extractor_once():
    plain, zero = (
        feed(small(m, model=normed()), class_stream(8))
        for m in ("er", "er-obc:correction_weight=0")
    )
    assert same(parameters(plain), parameters(zero))
    corrected = small("er-obc", model=normed())
    reference = small("er", model=normed())
    for x, labels in class_stream(2):
        corrected.learn(x, labels)
        reference.learn(x, labels)
    one, two = parameters(corrected), parameters(reference)
    body = {name for name in one if name.startswith("backbone")}
    assert same({n: one[n] for n in body}, {n: two[n] for n in body})
    assert not torch.equal(one["head.weight"], two["head.weight"])


def test_er_obc_worked_example():
    head = linear([[1, 0], [0, 1]]).head
    head.bias.requires_grad_(True)
    x, y = torch.tensor([[1.0, 2], [0.5, 0]]), torch.tensor([0, 1])
    optimizer = torch.optim.SGD(head.parameters(), 0.03)
    loss = F.cross_entropy(head(x), y)
    assert_value(loss, 1.1436693)
    loss.backward()
    optimizer.step()
    expected = torch.tensor([[1.0062974, 0.0219318], [-0.0062974, 0.9780682]])
    torch.testing.assert_close(head.weight.detach(), expected, **EXACT)
    assert_value(F.cross_entropy(head(x), y), 1.1093228)


def test_er_wn_worked_numbers_and_same_training_as_er():
    rule = make_method("er-wn").inference
    half = make_method("er-wn:power=0.5").inference
    network = linear([[3, 4], [1, 0], [0, 2]])
    features = torch.tensor([[1.0, 1]])
    outputs = SimpleNamespace(features=features, logits=network.logits(features))
    model = SimpleNamespace(network=network)
    scores = rule.scores(outputs, rule.prepare(model)).detach()
    torch.testing.assert_close(scores, torch.tensor([[1.4, 1, 1]]))
    scores = half.scores(outputs, half.prepare(model)).detach()
    torch.testing.assert_close(scores, torch.tensor([[3.1305, 1, 1.4142]]), rtol=0, atol=1e-4)
    plain, normalised = (feed(small(m), class_stream(8)) for m in ("er", "er-wn"))
    assert same(parameters(plain), parameters(normalised))
    same_rule = feed(small("er-wn:power=0,keep_bias=true"), class_stream(8))
    x = class_stream(9)[-1][0]
    np.testing.assert_allclose(same_rule.predict_proba(x), plain.predict_proba(x), rtol=1e-5)


def trained_labels(learner, stream):
    """Labels of the rows of each step, incoming and replayed apart."""
    seen = []
    original = learner.method.loss

    def loss(step):
        seen.append([group.y.tolist() for group in step.groups])
        return original(step)

    learner.method.loss = loss
    feed(learner, stream)
    return seen


def test_er_up_gives_every_old_class_the_quota():
    seen = trained_labels(small("er-up", memory=30), class_stream(12, batch=6, classes=6))
    for incoming, *replayed in seen[1:]:
        present, old = set(incoming), Counter(replayed[0] if replayed else [])
        assert not present & set(old)
        assert set(old.values()) <= {math.ceil(6 / len(present))}
    assert sum(len(replayed[0]) for _, *replayed in seen if replayed) > 0


def test_er_down_keeps_few_incoming_rows_and_the_same_memory():
    stream = class_stream(12, batch=6, classes=6)
    learner, plain = small("er-down", memory=8), small("er", memory=8)
    seen = trained_labels(learner, stream)
    feed(plain, stream)
    for number, (incoming, *_) in enumerate(seen[1:], 1):
        n_classes = len({label for _, labels in stream[: number + 1] for label in labels})
        assert max(Counter(incoming).values()) <= max(1, 4 // n_classes)
    assert torch.equal(learner.memory.field("x"), plain.memory.field("x"))


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


def test_mro_never_looks_at_the_incoming_images():
    learner = small("mro", batch=4)
    first, *rest = class_stream(4)
    learner.learn(*first)
    untrained = parameters(learner)
    assert learner.learn(*rest[0]).rows == 4
    assert not same(parameters(learner), untrained)
    one, other = (feed(small("mro", batch=4), [first]) for _ in range(2))
    one.learn(*rest[0])
    other.learn(rest[0][0] + 100, rest[0][1])
    assert same(parameters(one), parameters(other))
    with pytest.raises(InputError, match="trains only from memory"):
        small("mro", memory=0)


# ---- ER-CBL --------------------------------------------------------------------------------------


def test_er_cbl_worked_weights():
    labels = torch.tensor([0] * 16 + [1] * 16 + [2] * 2 + [3] * 4)
    expected = torch.tensor([0.28588, 0.28588, 2.28542, 1.14282, 0])
    torch.testing.assert_close(class_weights(labels, 5, 0.9999), expected, rtol=0, atol=1e-5)
    few = class_weights(torch.tensor([0, 0, 1, 2]), 3, 0.9999)
    torch.testing.assert_close(few, torch.tensor([0.600024, 1.199988, 1.199988]))
    assert class_weights(labels, 4, 0.0).eq(1).all()


def test_er_cbl_is_er_when_the_classes_are_even_and_pushes_absent_classes_unlike_las():
    group = Group([[1.0, 0, 2], [0, 1, 0]], [0, 1])
    step = step_of(group)
    step.n_classes = 3
    loss = make_method("er-cbl").loss(step)
    torch.testing.assert_close(loss, F.cross_entropy(group.x, group.y))
    loss.backward()
    assert group.x.grad[:, 2].ne(0).all()


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


@given(st.lists(st.integers(0, 4), min_size=30, max_size=60), st.integers(5, 10), st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_clib_memory_is_balanced_and_holds_the_newest(labels, capacity, batch):
    memory, rule = Memory(capacity), LeastImportantOfTheLargestClass()
    for first in range(0, len(labels), batch):
        y = torch.tensor(labels[first : first + batch])
        raw = torch.arange(first, first + len(y))[:, None].float()
        rows = type("R", (), {"y": y, "__len__": lambda self: len(self.y)})()
        placed = rule.place(SimpleNamespace(memory=memory), rows)
        memory.put(placed.slots, {"x": raw[placed.rows], "y": y[placed.rows], **placed.fields})
        assert first + len(y) - 1 in memory.field("x").flatten().tolist()
    counts, seen = Counter(memory.field("y").tolist()), Counter(labels)
    quota = math.ceil(capacity / len(seen))
    if min(seen.values()) >= quota and capacity >= len(seen):
        assert max(counts.values()) - min(counts[label] for label in seen) <= 1


def test_clib_refresh_leaves_the_network_alone():
    learner = small("clib:period=1", model=Noisy(), memory=8, lr=0.0, batch=4)
    feed(learner, class_stream(3))
    body = {n: v for n, v in parameters(learner).items() if "running" not in n and "num_b" not in n}
    feed(learner, class_stream(2, seed=4))
    after = parameters(learner)
    assert same(body, {name: after[name] for name in body})
    assert int(after["backbone.layers.1.num_batches_tracked"]) == 5  # one training forward a step
    assert learner.memory.field("importance").ne(0).any()


# ---- ASER ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [3, 9, 30])
def test_aser_keeps_its_size_and_leaves_batchnorm_alone(memory):
    learner = small("aser:per_class=2", model=Noisy(), memory=memory)
    stream = class_stream(14, batch=4, classes=6)
    for number, (x, labels) in enumerate(stream, 1):
        learner.learn(x, labels)
        assert len(learner.memory) == min(memory, 4 * number)
    assert int(parameters(learner)["backbone.layers.1.num_batches_tracked"]) == len(stream)
    counts = learner.memory.class_counts
    assert torch.equal(counts, torch.bincount(learner.memory.field("y"), minlength=len(counts)))
    assert counts[4:].sum() > 0  # the last classes got in, also where every slot judges


# ---- ER-CBA --------------------------------------------------------------------------------------


def test_er_cba_worked_gradient():
    adaptor = Adaptor(2, 2)
    with torch.no_grad():
        adaptor.inner.weight.copy_(torch.tensor([[1.0, -1], [-1, 1]]))
        adaptor.outer.weight.copy_(torch.eye(2) / 2)
    weight, bias = torch.tensor([[0.5], [-0.5]]), torch.zeros(2)
    inner = [
        (torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0])),
        (torch.tensor([[-1.0]]), torch.tensor([1])),
    ]
    outer = (torch.tensor([[-1.5], [0.5]]), torch.tensor([1, 0]))
    logits = [F.linear(x, weight) for x, _ in inner]
    through = sum(
        F.cross_entropy(z + adaptor(z), y) for z, (_, y) in zip(logits, inner, strict=True)
    )
    assert_value(through, 0.4284915)
    loss = outer_loss(weight, bias, adaptor, inner, outer, lr=0.1)
    assert_value(loss, 0.3203028)
    loss.backward()
    expected = torch.tensor([[0.0057234, -0.0017806], [-0.0057234, 0.0017806]])
    torch.testing.assert_close(adaptor.outer.weight.grad, expected, **EXACT)
    torch.testing.assert_close(adaptor.outer.bias.grad.abs(), torch.full((2,), 0.0058545), **EXACT)


def test_er_cba_adaptor_moves_only_in_the_outer_step_and_is_not_used_to_predict():
    learner = small("er-cba:period=4,adaptor_lr=0.01", memory=40)
    stream = class_stream(24)
    moved = []
    for x, labels in stream:
        before = {
            k: v.clone()
            for k, v in learner.method.modules.get("adaptor", nn.Module()).state_dict().items()
        }
        learner.learn(x, labels)
        after = learner.method.modules["adaptor"].state_dict()
        moved.append(bool(before) and not same(before, dict(after)))
    assert any(moved) and all(number % 4 == 3 for number, m in enumerate(moved) if m)
    answer = learner.predict_proba(stream[0][0])
    with torch.no_grad():
        learner.method.modules["adaptor"].outer.bias.add_(torch.randn(16) * 100)
    assert np.array_equal(learner.predict_proba(stream[0][0]), answer)


def test_er_cba_adaptor_grows_and_keeps_its_corner():
    learner = small("er-cba")
    x = np.random.default_rng(0).normal(size=(16, DIM))
    learner.learn(x, list(range(16)))
    corner = learner.method.adaptor.inner.weight.detach().clone()
    learner.learn(x, list(range(16, 32)))
    assert learner.method.adaptor.inner.weight.shape == (256, 32)
    assert torch.equal(learner.method.adaptor.inner.weight[:, :16], corner)


# ---- all of them ---------------------------------------------------------------------------------

ONLINE = [name for name in method_names() if not name.startswith("joint")]


@pytest.mark.parametrize("name", ONLINE)
def test_every_method_resumes_exactly_and_takes_any_batch(name, tmp_path):
    stream = class_stream(10) + [(x[:1], labels[:1]) for x, labels in class_stream(3, seed=5)]
    whole = feed(small(name, model=Noisy()), stream)
    cut = feed(small(name, model=Noisy()), stream[:7])
    cut.save(tmp_path)
    cut = feed(type(cut).load(tmp_path, model=Noisy()), stream[7:])
    assert cut.fingerprint() == whole.fingerprint()
    assert len(whole.memory) <= 12
    assert len(whole.predict(stream[0][0])) == 4


@pytest.mark.parametrize("name", [n for n in ONLINE if not n.startswith("fine-tune")])
def test_every_replay_method_remembers_the_first_classes(name):
    learner = feed(small(name, memory=40, replay_batch=8), class_stream(120, batch=8))
    x, labels = map(np.concatenate, zip(*class_stream(40, seed=9), strict=True))
    right = np.mean(
        [guess == label for guess, label in zip(learner.predict(x), labels, strict=True)]
    )
    assert right > 0.7
