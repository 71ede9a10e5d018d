"""What `learn` and `predict` do: rows, labels, memory, randomness, accumulation."""

import copy
import inspect
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream import Learner
from evenstream.errors import InputError
from evenstream.learner.memory import X, Y
from small_streams import (
    DIM,
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    same,
    small,
)

# ---- what may come in ----------------------------------------------------------------------------


def test_labels_of_any_kind():
    labels = ["a", 1, True, "1", (1, "b"), (True, "b"), False, np.int64(7)]
    learner = small()
    learner.learn(blobs(8)[0], labels)
    expected = ["a", 1, True, "1", (1, "b"), (True, "b"), False, 7]
    assert list(map(repr, learner.labels)) == list(map(repr, expected))
    predicted = learner.predict(blobs(3)[0])
    assert all(repr(label) in map(repr, expected) for label in predicted)
    assert learner.predict_proba(blobs(3)[0]).shape == (3, 8)


def test_labels_keep_their_place():
    learner = small()
    learner.learn(blobs(2)[0], ["b", "a"])
    learner.learn(blobs(3)[0], ["c", "a", "b"])
    assert learner.labels == ["b", "a", "c"]
    learner.labels.append("not me")
    assert learner.labels == ["b", "a", "c"]


@settings(max_examples=12)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), model=st.booleans())
def test_batches_of_any_size(sizes, model):
    learner = small("er-las", nn.Sequential(nn.Linear(DIM, 6), nn.BatchNorm1d(6)))
    if model:
        learner = small("er-las", "mlp")
    for index, size in enumerate(sizes):
        result = learner.learn(*blobs(size, seed=index))
        seen = sum(sizes[:index])
        assert result.rows == size + min(4, seen, 12)
        assert result.step == learner.step == index + 1
        assert np.isfinite(result.loss) and 0 <= result.accuracy <= 1


def test_single_samples_with_batchnorm():
    for learner, batch in (
        (small("er", "convnet", memory=0), lambda i: images(1, seed=i)),
        (small("fine-tune", Noisy()), lambda i: blobs(1, seed=i)[0]),
        (
            small("er", nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4)), memory=0),
            lambda i: images(1, seed=i),
        ),
    ):
        for index in range(4):
            assert np.isfinite(learner.learn(batch(index), [index % 2]).loss)
        assert len(learner.predict(batch(9))) == 1


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        lambda x: x.astype(np.float64),
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.longdouble),
        lambda x: x.tolist(),
        torch.from_numpy,
        lambda x: torch.from_numpy(x).requires_grad_(),
        lambda x: [torch.from_numpy(row) for row in x],
        lambda x: np.asfortranarray(x),
        lambda x: torch.from_numpy(np.repeat(x, 2, axis=1))[:, ::2],
    ],
)
def test_the_same_numbers_in_another_container_are_the_same_batch(convert):
    x, y = blobs(6)
    expected, found = small(), small()
    expected.learn(x, y)
    found.learn(convert(x), torch.tensor(y))
    assert found.fingerprint() == expected.fingerprint()


def test_integers_and_booleans_become_floats():
    for dtype in (np.int64, np.uint16, bool, np.float16):
        learner = small()
        learner.learn((blobs(4)[0] > 0).astype(dtype), [0, 1, 0, 1])
        assert learner.memory.field(X).dtype == torch.float32


# ---- predicting ----------------------------------------------------------------------------------


def test_predict_before_any_learn():
    learner = small()
    x, _ = blobs(3)
    assert learner.predict(x) == [None] * 3
    assert learner.predict_proba(x).shape == (3, 0)
    assert learner.predict_indices(x).tolist() == [-1] * 3
    assert learner.labels == [] and learner.step == 0


def test_predict_proba_is_a_distribution_whose_top_is_predict():
    learner = feed(small(), class_stream())
    x = np.concatenate([batch for batch, _ in class_stream()])
    proba = learner.predict_proba(x)
    assert proba.dtype == np.float32 and (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert learner.predict(x) == [learner.labels[i] for i in proba.argmax(1)]
    assert learner.predict_indices(x).tolist() == proba.argmax(1).tolist()


def test_predict_in_parts_equals_predict_at_once(monkeypatch):
    learner = feed(small(), class_stream())
    x, _ = blobs(10)
    whole = learner.predict_proba(x)
    monkeypatch.setattr("evenstream.learner.outputs.PREDICT_BATCH", 3)
    np.testing.assert_allclose(learner.predict_proba(x), whole, rtol=1e-5)


@pytest.mark.parametrize("model", ["mlp", Noisy()], ids=["named", "own"])
def test_predict_changes_no_state(model):
    learner = feed(small("er-las", model), class_stream())
    before, modes = learner.fingerprint(), [m.training for m in learner.network.modules()]
    x, _ = blobs(5)
    first = learner.predict_proba(x)
    learner.predict(x, priors={"class 0": 0.5, "class 1": 0.5})
    assert learner.fingerprint() == before
    assert [m.training for m in learner.network.modules()] == modes
    assert np.array_equal(learner.predict_proba(x), first)
    with pytest.raises(InputError):
        learner.predict(x[:, :2])
    assert learner.fingerprint() == before


def test_predict_between_steps_changes_nothing_later():
    stream = class_stream()
    one, two = small("er-las", Noisy()), small("er-las", Noisy())
    for x, labels in stream:
        one.learn(x, labels)
        two.predict(x)
        two.learn(x, labels)
        two.predict_proba(x)
    assert one.fingerprint() == two.fingerprint()


# ---- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "tensor", "uint8"])
def test_inputs_are_neither_changed_nor_kept(kind):
    def batch():
        x = images(6) if kind == "uint8" else blobs(6)[0]
        return torch.from_numpy(x) if kind == "tensor" else x

    def as_bytes(x):
        return np.asarray(x).tobytes()

    learner, twin = (small("er", augment="none", accumulate=4) for _ in range(2))
    x, labels = batch(), [0, 1, 2, 0, 1, 2]
    for start in (0, 3):
        given_x, given_labels = x[start : start + 3], labels[start : start + 3]
        before = as_bytes(given_x)
        learner.learn(copy.deepcopy(given_x), list(given_labels))
        twin.learn(given_x, given_labels)
        assert as_bytes(given_x) == before
        given_x[:] = 1  # the caller's array is the caller's: twin must not notice
        given_labels[:] = ["x"] * 3
    assert learner.fingerprint() == twin.fingerprint()
    assert learner.step == 1


# ---- rows and memory -----------------------------------------------------------------------------


class Spy:
    """Notes the labels and raw inputs that each step's loss sees."""

    def __init__(self, learner):
        self.labels, self.raw, self.observed = [], [], []
        loss, observe = learner.method.loss, learner.criterion.observe

        def spied_loss(step):
            self.labels.append([group.y.tolist() for group in step.groups])
            self.raw.append([group.raw.clone() for group in step.groups])
            return loss(step)

        def spied_observe(labels, n_classes):
            self.observed.append((labels.tolist(), n_classes))
            observe(labels, n_classes)

        learner.method.loss, learner.criterion.observe = spied_loss, spied_observe


@pytest.mark.parametrize("method", ["er", "er-las"])
def test_trained_labels_are_incoming_then_replayed_and_observed_once(method):
    learner = small(method, memory=20, replay_batch=3)
    spy = Spy(learner)
    stored = []
    for index in range(6):
        x, y = blobs(4, seed=index)
        before = {tuple(row) for row in learner.memory.field(X).tolist()} if stored else set()
        learner.learn(x, y)
        incoming, replayed = spy.raw[-1]
        assert torch.equal(incoming, torch.from_numpy(x))
        assert [learner.labels[i] for i in spy.labels[-1][0]] == y
        # never a sample of this step, only of the memory as it was
        assert {tuple(row) for row in replayed.tolist()} <= before
        assert spy.observed[-1] == ([*spy.labels[-1][0], *spy.labels[-1][1]], len(learner.labels))
        stored.append(x)
    assert len(spy.observed) == 6


def test_replayed_rows_keep_their_labels():
    learner = small("er", memory=8)
    truth, spy = {}, Spy(learner)
    for index in range(8):
        x, y = blobs(3, classes=5, seed=index)
        truth.update({tuple(row): label for row, label in zip(x.tolist(), y, strict=True)})
        learner.learn(x, y)
    for labels, raw in zip(spy.labels, spy.raw, strict=True):
        for indices, rows in zip(labels, raw, strict=True):
            for index, row in zip(indices, rows.tolist(), strict=True):
                assert learner.labels[index] == truth[tuple(row)]


def test_memory_holds_the_raw_prefix():
    learner = small("er", memory=10)
    first, second = images(4), images(5, seed=1)
    learner.learn(first, [0, 1, 0, 1])
    learner.learn(second, [2, 2, 1, 0, 2])
    assert learner.memory.field(X).dtype == torch.uint8
    assert np.array_equal(learner.memory.field(X).numpy(), np.concatenate([first, second]))
    assert learner.memory.field(Y).tolist() == [0, 1, 0, 1, 2, 2, 1, 0, 2]


def test_class_counts_equal_a_recount():
    learner = small("er", memory=7)
    for x, labels in class_stream(12, batch=5, classes=6):
        learner.learn(x, labels)
        stored = learner.memory.field(Y).tolist()
        counts = learner.memory.class_counts.tolist()
        assert counts == [stored.count(c) for c in range(len(counts))]
        assert len(stored) == min(7, 5 * learner.step)


def test_memory_zero_makes_er_fine_tuning():
    stream = class_stream()
    for adjusted in ("", "-las"):
        er = feed(small("er" + adjusted, Noisy(), memory=0), stream)
        plain = feed(small("fine-tune" + adjusted, Noisy()), stream)
        assert same(parameters(er), parameters(plain))
        assert len(er.memory) == len(plain.memory) == 0
        assert er.learn(*stream[0]).rows == 4


def test_replay_changes_something():
    stream = class_stream()
    er, plain = feed(small("er"), stream), feed(small("fine-tune"), stream)
    assert not same(parameters(er), parameters(plain))


def test_tau_zero_is_er_bit_for_bit():
    stream = class_stream(16, classes=6)
    for model in ("mlp", None):
        er, zero, one = (
            feed(small(method, model or Noisy(), momentum=0.5), stream)
            for method in ("er", "er-las:tau=0", "er-las")
        )
        assert same(parameters(er), parameters(zero))
        assert not same(parameters(er), parameters(one))


def test_augmentation_seed_leaves_the_memory_alone():
    def run(seed):
        learner = small("er", augment="crop1+flip", memory=6)
        learner.randomness.augment.manual_seed(seed)
        for index in range(5):
            learner.learn(images(4, seed=index), [0, 1, 2, index])
        return learner

    one, two = run(1), run(2)
    assert torch.equal(one.memory.field(X), two.memory.field(X))
    assert torch.equal(one.memory.field(Y), two.memory.field(Y))
    assert not same(parameters(one), parameters(two))
    assert same(parameters(one), parameters(run(1)))


def test_augmentation_is_fresh_at_each_retrieval():
    learner = small("er", augment="crop1+flip", memory=1, replay_batch=1)
    views = []
    loss = learner.method.loss

    def spied(step):
        found = loss(step)
        if len(step.groups[1]):
            views.append(step.groups[1].x.clone())
        return found

    learner.method.loss = spied
    for _ in range(6):
        learner.learn(images(1), [0])
    assert len({tuple(view.flatten().tolist()) for view in views}) > 1


# ---- the step's answer ---------------------------------------------------------------------------


def test_accuracy_is_measured_before_the_update_with_the_classes_known_before():
    learner = small("er", memory=0)
    x, _ = blobs(4)
    assert learner.learn(x, ["a"] * 4).accuracy == 0  # nothing was known
    assert learner.learn(x, ["a"] * 4).accuracy == 1  # one class: always right
    assert learner.learn(x, ["b"] * 4).accuracy == 0  # unknown until now
    for seed in range(5):
        x, y = blobs(8, classes=2, seed=seed)
        labels = ["ab"[value] for value in y]
        expected = np.mean([p == t for p, t in zip(learner.predict(x), labels, strict=True)])
        assert learner.learn(x, labels).accuracy == pytest.approx(expected)


def test_loss_is_the_mean_over_all_rows():
    learner = small("er", memory=10)
    learner.learn(*blobs(5))
    spy = Spy(learner)
    x, y = blobs(3, seed=1)
    before = parameters(learner)
    result = learner.learn(x, y)
    rows = torch.cat(spy.raw[-1])
    twin = small("er")
    twin.learn(*blobs(5))
    assert same(parameters(twin), before)
    logits = twin.network(rows)
    expected = nn.functional.cross_entropy(
        logits, torch.tensor([*spy.labels[-1][0], *spy.labels[-1][1]])
    )
    assert result.loss == pytest.approx(expected.item(), rel=1e-5)
    assert result.rows == len(rows) == 7


def test_a_single_class_is_flagged():
    learner = small("er-las", memory=0)
    x, _ = blobs(3)
    before = learner.learn(x, [0, 0, 0])
    weights = parameters(learner)
    again = learner.learn(x, [0, 0, 0])
    assert before.single_class and again.single_class and again.loss == 0
    assert same(parameters(learner), weights)  # that is what the flag means
    assert not learner.learn(x, [0, 1, 0]).single_class
    assert not small("er", memory=0).learn(x, [0, 0, 0]).single_class
    assert not small("er-las:tau=0", memory=0).learn(x, [0, 0, 0]).single_class


def test_repeated_flags_warn_once_with_the_remedy():
    learner = small("er-las", memory=0)
    x, _ = blobs(1)

    def steps(count, label=0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(count):
                learner.learn(x, [label])
        return caught

    assert not steps(19)
    (warning,) = steps(1)
    assert "accumulate" in str(warning.message) and "window" in str(warning.message)
    assert warning.filename == inspect.getfile(test_repeated_flags_warn_once_with_the_remedy)
    assert not steps(30)
    learner.learn(blobs(2)[0], [0, 1])  # a step with two classes, then stuck again
    assert not steps(40)


def test_a_warning_turned_into_an_error_does_not_spoil_the_step():
    learner, twin = small("er-las", memory=0), small("er-las", memory=0)
    x, _ = blobs(1)
    for _ in range(19):
        learner.learn(x, [0])
        twin.learn(x, [0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="single class"):
            learner.learn(x, [0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin.learn(x, [0])
    assert learner.fingerprint() == twin.fingerprint()  # the step was made, whole


# ---- accumulate ----------------------------------------------------------------------------------


@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8), enough=st.integers(2, 6))
def test_accumulate_equals_whole_batches(sizes, enough):
    x, y = blobs(sum(sizes))
    gathering = small("er-las", Noisy(), accumulate=enough)
    whole = small("er-las", Noisy(), accumulate=1)
    start, held = 0, 0
    for size in sizes:
        result = gathering.learn(x[start : start + size], y[start : start + size])
        start, held = start + size, held + size
        if held >= enough:
            same_step = whole.learn(x[start - held : start], y[start - held : start])
            assert (result.loss, result.rows) == (same_step.loss, same_step.rows)
            held = 0
        else:
            assert result.loss is None and result.accuracy is None and result.rows == 0
        assert result.waiting == held and result.step == gathering.step == whole.step
    last = gathering.flush()
    if held:
        whole.learn(x[start - held : start], y[start - held : start])
        assert last.step == gathering.step == whole.step
    else:
        assert last is None
    if whole.network is not None:
        assert same(parameters(gathering), parameters(whole))
    assert gathering.labels == whole.labels
    assert gathering.flush() is None


def test_predict_while_the_first_rows_are_gathered():
    learner = small(accumulate=3)
    x, _ = blobs(2)
    assert learner.learn(x, ["a", "b"]).waiting == 2
    assert learner.predict(x) == [None, None] and learner.labels == []


def test_gathered_rows_are_checked_at_once():
    """What can never be learned is refused when it comes, not when the batch is full."""
    learner = small("er", "convnet", accumulate=3)
    before = learner.fingerprint()
    with pytest.raises(InputError, match="convnet"):
        learner.learn(blobs(1)[0], [0])
    assert learner.fingerprint() == before
    learner = small("er", "mlp", accumulate=3, augment="flip")
    before = learner.fingerprint()
    with pytest.raises(InputError, match="flip"):
        learner.learn(blobs(1)[0], [0])
    assert learner.fingerprint() == before


# ---- randomness ----------------------------------------------------------------------------------


def test_same_seed_same_learner_other_seed_another():
    stream = class_stream()
    one, two, other = (feed(small(seed=seed), stream) for seed in (0, 0, 1))
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()
    assert not same(parameters(one), parameters(other))


@pytest.mark.parametrize("model", ["mlp", "own"])
def test_the_global_generator_outside_and_the_learner_do_not_meet(model):
    stream = class_stream()

    def make():
        return small("er-las", Noisy() if model == "own" else model)

    torch.manual_seed(1)
    quiet = feed(make(), stream)
    torch.manual_seed(2)
    outside = torch.get_rng_state()
    noisy = make()
    for x, labels in stream:
        noisy.learn(x, labels)
        noisy.predict(x)
        assert torch.equal(torch.get_rng_state(), outside)
        torch.rand(7)
        outside = torch.get_rng_state()
    assert quiet.fingerprint() == noisy.fingerprint()


def test_dropout_draws_from_the_learners_own_generator():
    one, two = (feed(small("er", Noisy(), seed=seed, memory=0), class_stream()) for seed in (0, 1))
    same_backbone = {n: v for n, v in parameters(one).items() if "backbone" in n}
    assert not same(same_backbone, {n: v for n, v in parameters(two).items() if "backbone" in n})


def test_a_lazy_module_is_initialised_without_touching_the_outside():
    def run(seed):
        torch.manual_seed(seed)
        outside = torch.get_rng_state()
        learner = small("er", nn.Sequential(nn.LazyLinear(6), nn.ReLU()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.learn(*blobs(4))
        assert torch.equal(torch.get_rng_state(), outside)
        return learner

    assert same(parameters(run(1)), parameters(run(2)))


def test_two_learners_side_by_side():
    stream, other = class_stream(), class_stream(seed=5)
    alone = feed(small("er-las", Noisy()), stream)
    one, two = small("er-las", Noisy()), small("er-las", Noisy(), seed=3, momentum=0.9)
    for (x, labels), (x2, labels2) in zip(stream, other, strict=True):
        two.learn(x2, labels2)
        one.learn(x, labels)
        two.predict(x)
    assert one.fingerprint() == alone.fingerprint()


@pytest.mark.parametrize(
    "options", [{"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}], ids=["momentum", "adam"]
)
def test_a_learner_made_from_anothers_state_is_independent(options):
    stream = class_stream()
    first = feed(small(**options), stream[:6])
    twin = Learner.from_state(first.state())
    before = twin.fingerprint()
    assert before == first.fingerprint()
    feed(first, stream[6:])
    assert twin.fingerprint() == before
    feed(twin, stream[6:])
    assert twin.fingerprint() == first.fingerprint()


# ---- modules of one's own ------------------------------------------------------------------------


def test_frozen_parameters_stay():
    module = Noisy()
    for parameter in module.layers[0].parameters():
        parameter.requires_grad_(False)
    frozen = module.layers[0].weight.clone()
    learner = feed(small("er-las", module, weight_decay=0.1, momentum=0.9), class_stream())
    assert torch.equal(module.layers[0].weight, frozen)
    assert not torch.equal(module.layers[1].weight, torch.ones(7))
    assert learner.network.head.weight.requires_grad


def test_a_module_without_parameters_will_do():
    learner = feed(small("er-las", nn.Sequential()), class_stream())  # the inputs are the features
    assert learner.network.head.in_features == DIM
    assert len(learner.predict(blobs(3)[0])) == 3


def test_learning_inside_no_grad_works():
    with torch.no_grad():
        inside = feed(small(), class_stream())
        assert not torch.is_grad_enabled()
    assert inside.fingerprint() == feed(small(), class_stream()).fingerprint()


def test_bfloat16_learns():
    learner = feed(small(dtype="bfloat16"), class_stream(40, batch=8, classes=2))
    x, labels = class_stream(1, batch=50, classes=2, seed=9)[0]
    right = np.mean([p == t for p, t in zip(learner.predict(x), labels, strict=True)])
    assert right > 0.9 and learner.network.head.weight.dtype == torch.float32


def test_it_learns_and_adjustment_helps_against_forgetting():
    """Six classes, two at a time: what the library is for, on a toy."""
    x, y = blobs(300, classes=6, seed=77)
    labels = [f"class {value}" for value in y]

    def accuracy(method):
        learner = feed(small(method, memory=60, replay_batch=8), class_stream(90, 8, 6))
        return np.mean([p == t for p, t in zip(learner.predict(x), labels, strict=True)])

    fine, er, las = (accuracy(method) for method in ("fine-tune", "er", "er-las"))
    assert fine < 0.5 < er and las > er - 0.05


def test_the_learning_rate_can_be_changed_and_is_saved(tmp_path):
    stream = class_stream()
    learner, other = small("er", lr=0.5), small("er", lr=0.01)
    learner.lr = 0.01  # before there is an optimiser
    feed(learner, stream[:3])
    feed(other, stream[:3])
    assert learner.fingerprint() == other.fingerprint()
    learner.lr = 0.2
    learner.save(tmp_path / "saved")
    resumed = Learner.load(tmp_path / "saved")
    assert resumed.lr == 0.2
    before = parameters(learner)
    feed(learner, stream[3:5])
    feed(resumed, stream[3:5])
    feed(other, stream[3:5])
    assert same(parameters(resumed), parameters(learner))
    moved, less = (
        sum(float((after[name] - before[name]).abs().sum()) for name in before)
        for after in (parameters(learner), parameters(other))
    )
    assert moved > 5 * less
    with pytest.raises(InputError, match="lr must be a finite number"):
        learner.lr = math.nan
    assert learner.lr == 0.2


def test_batches_that_are_not_to_be_stored_are_learned_from():
    (x, y), *_ = class_stream()
    learner = small("er")
    learner.learn(x, y, store=False)
    assert learner.step == 1 and len(learner.memory) == 0 and learner.labels
    gathering = small("er", accumulate=100)
    with pytest.raises(InputError, match="accumulate"):
        gathering.learn(x, y, store=False)
    assert not gathering.pending
