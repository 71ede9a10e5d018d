"""Methods that correct the head or the prediction: ER-OBC, ER-CBA, ER-WN, ER-PostHoc."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from method_samples import (
    EXACT,
    Group,
    assert_value,
    by_tasks,
    linear,
    next_step,
    normed,
    step_of,
    watch_groups,
)
from torch import nn

from evenstream import Learner
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.learner.loop import update
from evenstream.learner.memory import Y
from evenstream.methods import make_method
from evenstream.methods.er_cba import Adaptor, outer_loss
from small_streams import (
    DIM,
    Bomb,
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    same,
    small,
)

# ---- ER-OBC --------------------------------------------------------------------------------------


def body_of(weights):
    return {name: value for name, value in weights.items() if name.startswith("backbone")}


def test_er_obc_moves_the_head_twice_and_the_extractor_once():
    plain, zero = (
        feed(small(m, model=normed()), class_stream(8))
        for m in ("er", "er-obc:correction_weight=0")
    )
    assert same(parameters(plain), parameters(zero))
    corrected, reference = small("er-obc", model=normed()), small("er", model=normed())
    for x, labels in class_stream(2):
        corrected.learn(x, labels)
        reference.learn(x, labels)
    one, two = parameters(corrected), parameters(reference)
    assert same(body_of(one), body_of(two))
    assert not torch.equal(one["head.weight"], two["head.weight"])


def test_er_obc_updates_the_head_twice_from_the_second_step_on(monkeypatch):
    learner, updates = small("er-obc"), []

    def counted(learner, loss, groups, undoable):
        updates[-1].append(tuple(groups))
        update(learner, loss, groups, undoable)

    for module in ("loop", "learner"):  # the main update, and those that methods ask for
        monkeypatch.setattr(f"evenstream.learner.{module}.update", counted)
    for x, labels in class_stream(3):
        updates.append([])
        learner.learn(x, labels)
    assert updates == [[("network",)], [("network",), ("head",)], [("network",), ("head",)]]


def with_worked_head(spec):
    """Features are inputs; the memory holds the two samples; head W = I, b = 0."""
    learner = small(spec, nn.Flatten(), memory=2, replay_batch=2, lr=0.03)
    x = np.array([[1.0, 2], [0.5, 0]], dtype=np.float32)
    learner.learn(x, ["a", "b"])
    with torch.no_grad():
        learner.network.head.weight.copy_(torch.eye(2))
        learner.network.head.bias.zero_()
    return learner, next_step(learner, x, ["a", "b"])


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_er_obc_worked_example(mode):
    learner, step = with_worked_head(f"er-obc:correction_mode={mode}")
    x, y, head = step.incoming.raw, step.incoming.y, learner.network.head
    assert_value(F.cross_entropy(head(x), y), 1.1436693)
    learner.method.after_step(step)
    expected = torch.tensor([[1.0062974, 0.0219318], [-0.0062974, 0.9780682]])
    torch.testing.assert_close(head.weight.detach(), expected, **EXACT)
    torch.testing.assert_close(head.bias.detach().abs(), torch.full((2,), 0.0016290), **EXACT)
    assert_value(F.cross_entropy(head(x), y), 1.1093228)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam"}])
def test_er_obc_correction_does_not_touch_the_extractor(mode, options):
    learner = feed(small(f"er-obc:correction_mode={mode}", normed(), **options), class_stream(6))
    before = parameters(learner)
    learner.method.after_step(next_step(learner, *class_stream(7)[-1]))
    after = parameters(learner)
    assert same(body_of(before), body_of(after))
    assert not torch.equal(before["head.weight"], after["head.weight"])


def test_er_obc_correction_modes_differ_with_batchnorm():
    one, two = (
        feed(small(f"er-obc:correction_mode={mode}", normed()), class_stream(6))
        for mode in ("train", "eval")
    )
    assert not same(parameters(one), parameters(two))


def drawn_in_correction(learner, step):
    fetched, fetch = [], step.fetch

    def spied(slots):
        fetched.append(slots)
        return fetch(slots)

    step.fetch = spied
    learner.method.after_step(step)
    return learner.memory.field(Y)[fetched[0]]


def test_er_obc_draws_as_many_rows_as_asked_evenly_if_asked():
    x, y = blobs(40, classes=2)
    labels = ["rare" if index < 2 else f"class {value}" for index, value in enumerate(y)]
    for spec, size, spread in (
        ("er-obc", 4, None),
        ("er-obc:correction_batch=9", 9, None),
        ("er-obc:correction_draw=balanced,correction_batch=9", 9, 0),
    ):
        learner = small(spec, memory=40)
        learner.learn(x, labels)
        drawn = drawn_in_correction(learner, next_step(learner, x[:2], labels[:2]))
        counts = torch.bincount(drawn, minlength=3)
        assert len(drawn) == size
        if spread is not None:
            assert counts.max() - counts.min() == spread


def test_er_obc_correction_is_a_draw_of_its_own_in_fresh_views():
    learner = small("er-obc", augment="crop1+flip", memory=12, replay_batch=4)
    learner.learn(images(12), [0, 1, 2] * 4)
    views, draws = [], []
    for _ in range(4):
        step = next_step(learner, images(2, seed=1), [0, 1])
        replayed, fetch, features = step.retrieve().slots, step.fetch, step.network.features

        def spied(slots, fetch=fetch):
            draws.append(slots)
            return fetch(slots)

        def seen(x, features=features):
            views.append(x)
            return features(x)

        step.fetch, step.network.features = spied, seen
        learner.method.after_step(step)
        step.network.features = features
        draws[-1] = (set(replayed.tolist()), draws[-1])
    assert any(first != set(second.tolist()) for first, second in draws)
    assert all(len(set(second.tolist())) == 4 for _, second in draws)
    raw = learner.memory.field("x")
    plain = [learner.preprocess.plain(raw[slots]) for _, slots in draws]
    assert not any(map(torch.equal, views, plain))


SURROGATE = "er-obc:surrogate_head=true"


def test_er_obc_with_a_surrogate_head_teaches_the_real_one_by_the_correction_only():
    learner, idle = small(SURROGATE), small("fine-tune", lr=0.0)
    first, second, *_ = class_stream()
    learner.learn(*first)
    idle.learn(*first)
    one, two = parameters(learner), parameters(idle)
    assert torch.equal(one["head.weight"], two["head.weight"])  # no correction at the first step
    assert not same(body_of(one), body_of(two))  # but the extractor learns
    learner.learn(*second)
    assert not torch.equal(parameters(learner)["head.weight"], one["head.weight"])
    surrogate = learner.method.modules["surrogate"]
    assert surrogate.out_features == 2
    assert not torch.equal(surrogate.weight, learner.network.head.weight)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}])
def test_er_obc_surrogate_head_grows_resumes_and_is_undone(tmp_path, options):
    stream = class_stream(12, classes=6)
    whole = feed(small(SURROGATE, Bomb(), **options), stream)
    part = feed(small(SURROGATE, Bomb(), **options), stream[:5])
    state, model = part.fingerprint(), part.model
    model.armed = True
    with pytest.raises(NonFiniteLoss):
        part.learn(stream[0][0], ["new", "newer", "class 0", "class 1"])
    model.armed = False
    assert part.fingerprint() == state
    part.save(tmp_path)
    rest = feed(Learner.load(tmp_path, Bomb()), stream[5:])
    assert rest.fingerprint() == whole.fingerprint() == feed(part, stream[5:]).fingerprint()


# ---- ER-CBA --------------------------------------------------------------------------------------


def worked_adaptor():
    adaptor = Adaptor(2, 2)
    with torch.no_grad():
        adaptor.inner.weight.copy_(torch.tensor([[1.0, -1], [-1, 1]]))
        adaptor.outer.weight.copy_(torch.eye(2) / 2)
    return adaptor


WEIGHT, BIAS = torch.tensor([[0.5], [-0.5]]), torch.zeros(2)
INNER = [
    (torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0])),
    (torch.tensor([[-1.0]]), torch.tensor([1])),
]
OUTER = (torch.tensor([[-1.5], [0.5]]), torch.tensor([1, 0]))


def test_er_cba_worked_gradient():
    adaptor = worked_adaptor()
    logits = [F.linear(x, WEIGHT) for x, _ in INNER]
    labels = [y for _, y in INNER]
    through = sum(F.cross_entropy(z + adaptor(z), y) for z, y in zip(logits, labels, strict=True))
    assert_value(through, 0.4284915)
    without = sum(F.cross_entropy(z, y) for z, y in zip(logits, labels, strict=True))
    assert_value(without, 0.5333565)
    loss = outer_loss(WEIGHT, BIAS, adaptor, INNER, OUTER, lr=0.1)
    assert_value(loss, 0.3203028)
    loss.backward()
    expected = torch.tensor([[0.0057234, -0.0017806], [-0.0057234, 0.0017806]])
    torch.testing.assert_close(adaptor.outer.weight.grad, expected, **EXACT)
    torch.testing.assert_close(adaptor.outer.bias.grad.abs(), torch.full((2,), 0.0058545), **EXACT)


def test_er_cba_outer_gradient_agrees_with_finite_differences():
    values = []
    for shift in (-0.01, 0.01):
        adaptor = worked_adaptor().double()
        with torch.no_grad():
            adaptor.outer.weight[0, 0] += shift
        inner = [(x.double(), y) for x, y in INNER]
        outer = (OUTER[0].double(), OUTER[1])
        values.append(
            float(outer_loss(WEIGHT.double(), BIAS.double(), adaptor, inner, outer, 0.1).detach())
        )
    assert (values[1] - values[0]) / 0.02 == pytest.approx(0.0057234, abs=1e-6)


def test_er_cba_features_are_constants_for_the_adaptor():
    """A graph through the extractor gives the adaptor the same gradient, to the bit."""
    torch.manual_seed(0)
    extractor, gradients = nn.Linear(3, 1), []
    x = [torch.randn(4, 3), torch.randn(2, 3), torch.randn(5, 3)]
    y = [torch.randint(2, (len(rows),)) for rows in x]
    for attached in (True, False):
        adaptor = worked_adaptor()
        features = [extractor(rows) for rows in x]
        if not attached:
            features = [f.detach() for f in features]
        groups = list(zip(features, y, strict=True))
        outer_loss(WEIGHT, BIAS, adaptor, groups[:2], groups[2], 0.1).backward()
        gradients.append([p.grad for p in adaptor.parameters()])
    assert all(map(torch.equal, *gradients))


def cba(**modules):
    method = make_method("er-cba")
    method.modules["adaptor"] = modules.get("adaptor", worked_adaptor())
    return method


def cba_step(*groups, number=1):
    step = step_of(*groups, number=number)
    step.memory = SimpleNamespace(class_counts=torch.zeros(0, dtype=torch.int64))
    return step


def test_er_cba_treats_the_correction_as_a_constant():
    incoming, replayed = Group([[1.0, 0.2], [0, 2]], [0, 0]), Group([[-1.0, 0.5]], [1])
    method = cba()
    method.loss(cba_step(incoming, replayed)).backward()
    assert all(p.grad is None for p in method.modules["adaptor"].parameters())
    for group in (incoming, replayed):
        with torch.no_grad():
            corrected = group.x + method.modules["adaptor"](group.x)
        expected = (corrected.softmax(1) - F.one_hot(group.y, 2)) / len(group)
        torch.testing.assert_close(group.x.grad, expected)


def test_er_cba_with_a_silent_adaptor_is_the_sum_of_two_means():
    silent = Adaptor(2, 4)
    nn.init.zeros_(silent.outer.weight)
    incoming, replayed = Group([[1.0, 0.2], [0, 2]], [0, 0]), Group([[-1.0, 0.5]], [1])
    loss = cba(adaptor=silent).loss(cba_step(incoming, replayed))
    expected = F.cross_entropy(incoming.x, incoming.y) + F.cross_entropy(replayed.x, replayed.y)
    assert torch.equal(loss, expected)


def test_er_cba_adaptor_is_as_published():
    """Hidden 256, Xavier-normal weights, zero biases; trained by Adam at its own rate."""
    learner = small("er-cba")
    learner.learn(*class_stream(1)[0])
    adaptor, optimizer = learner.method.adaptor, learner.method.optimizers["adaptor"]
    assert isinstance(optimizer, torch.optim.Adam) and optimizer.param_groups[0]["lr"] == 0.001
    for layer in (adaptor.inner, adaptor.outer):
        assert layer.bias.eq(0).all()
        law = (2 / (16 + 256)) ** 0.5
        assert float(layer.weight.detach().std()) == pytest.approx(law, rel=0.05)
    assert adaptor.inner.out_features == 256


def test_er_cba_adaptor_sees_probabilities_of_seen_classes_and_zeros():
    adaptor, logits = Adaptor(4, 8), torch.tensor([[2.0, -1], [0, 0.5]])
    padded = torch.cat([logits.softmax(1), torch.zeros(2, 2)], 1)
    expected = adaptor.outer(adaptor.inner(padded).relu())[:, :2]
    torch.testing.assert_close(adaptor(logits), expected)


def test_er_cba_outer_step_is_on_the_steps_own_rows_and_a_new_draw(monkeypatch):
    learner = feed(small("er-cba", nn.Flatten(), memory=40, lr=0.07), class_stream(9))
    step, asked = next_step(learner, *class_stream(10)[-1]), []
    step.groups = [step.incoming, step.retrieve()]

    def spied(*arguments):
        asked.append(arguments)
        return outer_loss(*arguments)

    monkeypatch.setattr("evenstream.methods.er_cba.outer_loss", spied)
    learner.method.outer_step(step)
    ((weight, _, _, inner, outer, lr, _),) = asked
    assert lr == 0.07 and torch.equal(weight, learner.network.head.weight)
    for (features, labels), rows in zip(inner, step.groups, strict=True):
        assert torch.equal(features, rows.x) and torch.equal(labels, rows.y)
    assert outer[0].shape == inner[1][0].shape and not torch.equal(outer[0], inner[1][0])
    stored = {tuple(row) for row in learner.memory.field("x").tolist()}
    assert {tuple(row) for row in outer[0].tolist()} <= stored


def adaptor_of(learner):
    adaptor = learner.method.modules.get("adaptor")
    return {} if adaptor is None else {k: v.clone() for k, v in adaptor.state_dict().items()}


def moves(learner, stream):
    """After which steps (from 1) the adaptor had moved."""
    found = []
    for x, labels in stream:
        before = adaptor_of(learner)
        learner.learn(x, labels)
        if before and not same(before, adaptor_of(learner)):
            found.append(learner.step)
    return found


def test_er_cba_adaptor_moves_only_in_the_outer_step_and_is_not_used_to_predict():
    learner = small("er-cba:period=4,adaptor_lr=0.01", memory=40)
    stream = class_stream(24)
    moved = moves(learner, stream)
    assert moved and all(step % 4 == 0 for step in moved)
    answer = learner.predict_proba(stream[0][0])
    with torch.no_grad():
        learner.method.modules["adaptor"].outer.bias.add_(torch.randn(16) * 100)
    assert np.array_equal(learner.predict_proba(stream[0][0]), answer)


def test_er_cba_starts_once_the_memory_holds_a_class_that_is_not_in_the_batch():
    learner = small("er-cba:period=1", memory=40)
    x, _ = blobs(4)
    stream = [(x, [0, 1, 0, 1]), (x, [0, 1, 1, 1]), (x, [2, 2, 3, 3])]
    assert moves(learner, stream) == [3]
    # once begun it goes on, also when a batch has every class
    assert moves(learner, [(x, [0, 1, 2, 3])]) == [4]


def test_er_cba_may_start_because_of_a_class_that_was_not_replayed():
    learner = small("er-cba:period=1", memory=40)
    x, _ = blobs(4)
    learner.learn(x, [0, 0, 0, 1])
    learner.method.retrieval = SimpleNamespace(pick=lambda step, _: step.fetch(torch.tensor([3])))
    assert moves(learner, [(x, [1, 1, 1, 1])]) == [2]


def test_er_cba_can_start_with_the_second_task():
    learner = small("er-cba:start=second-task,period=1", memory=40)
    with pytest.raises(InputError, match="needs task boundaries"):
        learner.learn(*class_stream(1)[0])
    stream = class_stream(8, classes=8)  # four pairs of classes, two in each task
    learner.start_task()
    assert moves(learner, stream[:4]) == []
    learner.end_task()
    learner.start_task()
    assert moves(learner, stream[4:]) == [5, 6, 7, 8]


def test_er_cba_outer_step_leaves_the_network_alone():
    learner = feed(small("er-cba", Noisy(), memory=40), class_stream(9))
    step = next_step(learner, *class_stream(10)[-1])
    step.groups = [step.incoming, step.retrieve()]
    before, omega = parameters(learner), adaptor_of(learner)
    learner.method.outer_step(step)
    assert same(parameters(learner), before) and not same(adaptor_of(learner), omega)


@pytest.mark.parametrize("options", [{}, {"scope": "all", "head_size": 20}])
def test_er_cba_adaptor_grows_and_keeps_its_corner(options):
    learner = small("er-cba", **options)
    x = np.random.default_rng(0).normal(size=(16, DIM))
    learner.learn(x, list(range(16)))
    width = learner.method.adaptor.inner.in_features
    assert width == (32 if options else 16)
    corner = learner.method.adaptor.inner.weight.detach().clone()
    learner.learn(x, list(range(20, 36)))
    learner.learn(x, list(range(36, 52)))
    assert learner.method.adaptor.inner.weight.shape == (256, 64)
    assert torch.equal(learner.method.adaptor.inner.weight[:, :width], corner)


# ---- ER-WN ---------------------------------------------------------------------------------------


def scores_of(rule, network, features):
    features = torch.tensor(features)
    outputs = SimpleNamespace(features=features, logits=network.logits(features))
    return rule.scores(outputs, rule.prepare(SimpleNamespace(network=network))).detach()


@pytest.mark.parametrize(
    ("power", "expected"), [(1, [1.4, 1, 1]), (0.5, [3.1305, 1, 1.4142]), (0, [7.0, 1, 2])]
)
def test_er_wn_worked_numbers(power, expected):
    rule = make_method(f"er-wn:power={power}").inference
    scores = scores_of(rule, linear([[3, 4], [1, 0], [0, 2]]), [[1.0, 1]])
    torch.testing.assert_close(scores, torch.tensor([expected]), rtol=0, atol=1e-4)


def test_er_wn_takes_a_weight_of_length_zero():
    scores = scores_of(make_method("er-wn").inference, linear([[0, 0], [1, 0]]), [[2.0, 1]])
    assert scores.tolist() == [[0, 2]]


def test_er_wn_trains_as_er_and_is_er_without_normalisation():
    plain, normalised = (feed(small(m), class_stream(8)) for m in ("er", "er-wn"))
    assert same(parameters(plain), parameters(normalised))
    same_rule = feed(small("er-wn:power=0,keep_bias=true"), class_stream(8))
    x = class_stream(9)[-1][0]
    np.testing.assert_allclose(same_rule.predict_proba(x), plain.predict_proba(x), rtol=1e-5)


def test_er_wn_is_blind_to_the_lengths_of_weights():
    learner = feed(small("er-wn"), class_stream(8))
    x = class_stream(9)[-1][0]
    answer = learner.predict_proba(x)
    with torch.no_grad():
        learner.network.head.weight.mul_(torch.tensor([[3.0], [0.1], [20], [1]]))
        learner.network.head.bias.fill_(7)
    np.testing.assert_allclose(learner.predict_proba(x), answer, rtol=1e-5)


def test_er_wn_can_normalise_in_training():
    learner = small("er-wn:when=train", nn.Flatten(), lr=0.0, replay_batch=0)
    x, y = blobs(6)
    learner.learn(x, y)
    head = learner.network.head
    index = torch.tensor([learner.labels.index(label) for label in y])
    expected = F.cross_entropy(torch.from_numpy(x) @ F.normalize(head.weight, dim=1).T, index)
    assert learner.learn(x, y).loss == pytest.approx(float(expected.detach()), rel=1e-5)
    trained = feed(small("er-wn:when=train"), class_stream(8))
    assert not same(parameters(trained), parameters(feed(small("er"), class_stream(8))))
    idle = small("er-wn:when=train", lr=0.0)
    idle.learn(*class_stream(1)[0])
    bias = parameters(idle)["head.bias"]
    assert torch.equal(parameters(trained)["head.bias"][:2], bias)  # it has no part in the loss


# ---- ER-PostHoc ----------------------------------------------------------------------------------


def test_er_posthoc_subtracts_the_log_frequencies_of_the_trained_rows():
    learner, plain = small("er-posthoc:tau=0.5,decay=1"), small("er")
    seen = watch_groups(learner)
    stream = class_stream(10)
    feed(learner, stream)
    feed(plain, stream)
    assert same(parameters(learner), parameters(plain))
    counts = torch.bincount(torch.cat([g.y for groups in seen for g in groups]), minlength=4)
    assert learner.method.inference.tensors["label_counts"].tolist() == counts.tolist()
    x = class_stream(11)[-1][0]
    raw, corrected = plain.scores(x), learner.scores(x)
    torch.testing.assert_close(corrected, raw - 0.5 * (counts / counts.sum()).log())
    zero = feed(small("er-posthoc:tau=0"), stream)
    assert torch.equal(zero.scores(x), raw)


def test_er_posthoc_counts_can_fade_and_a_class_never_counts_less_than_a_row():
    learner = small("er-posthoc:decay=0.5", memory=0)
    x, _ = blobs(4)
    learner.learn(x, [0, 0, 0, 1])
    learner.learn(x, [1, 1, 2, 2])
    assert learner.method.inference.tensors["label_counts"].tolist() == [1.5, 2.5, 2.0]
    for _ in range(60):
        learner.learn(x, [2, 2, 2, 2])
    scores = learner.scores(x)
    assert scores.isfinite().all()


def test_er_posthoc_finds_the_optimum_of_a_fixed_distribution():
    """The spec's population: after CE has converged, the correction gives log P(x|1)/P(x|0)."""
    cells = [(0, 0, 63), (1, 0, 18), (2, 0, 9), (0, 1, 1), (1, 1, 3), (2, 1, 6)]
    rows = [(x, y) for x, y, count in cells for _ in range(count)]
    one_hot = np.eye(3, dtype=np.float32)
    x, y = one_hot[[x for x, _ in rows]], [y for _, y in rows]
    learner = small("er-posthoc", nn.Flatten(), memory=0, lr=3.0)
    for _ in range(400):
        learner.learn(x, y)
    scores = learner.scores(one_hot)
    found = (scores[:, 1] - scores[:, 0]).tolist()
    assert found == pytest.approx([-1.9459, 0.4055, 1.7918], abs=0.01)
    assert learner.predict(one_hot) == [0, 1, 1]


def test_er_posthoc_with_las_makes_no_sense_and_says_why():
    with pytest.raises(InputError, match=r"er-posthoc-las makes no sense.*once more"):
        make_method("er-posthoc-las")


def test_er_posthoc_takes_part_in_a_run_by_tasks():
    learner = by_tasks(small("er-posthoc"), class_stream(8), tasks=2)
    assert learner.learn(*class_stream(1)[0]).accuracy is not None
