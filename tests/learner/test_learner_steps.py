"""One step of `learn`: which rows it trains on and stores, what it answers, what it waits for."""

import inspect
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenstream.augment import Preprocess
from evenstream.core.memory import X, Y
from evenstream.core.rows import Rows, joint_view
from evenstream.errors import InputError
from tests.helpers.small_streams import (
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    same,
    small,
)

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


def test_each_group_has_its_own_view():
    raw, y = torch.full((2, 1, 4, 4), 51, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    generator = torch.Generator()
    groups = [
        Rows(raw, y, Preprocess("none", mean=mean, std=(1.0,)), generator)
        for mean in ((0.0,), (0.2,))
    ]
    view = joint_view(groups)
    torch.testing.assert_close(view[:, 0, 0, 0], torch.tensor([0.2, 0.2, 0.0, 0.0]))


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


def test_batches_that_are_not_to_be_stored_are_learned_from():
    (x, y), *_ = class_stream()
    learner = small("er")
    learner.learn(x, y, store=False)
    assert learner.step == 1 and len(learner.memory) == 0 and learner.labels
    gathering = small("er", accumulate=100)
    with pytest.raises(InputError, match="accumulate"):
        gathering.learn(x, y, store=False)
    assert not gathering.progress.pending


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
    if whole.built:
        assert same(parameters(gathering), parameters(whole))
    assert gathering.labels == whole.labels
    assert gathering.flush() is None


def test_predict_while_the_first_rows_are_gathered():
    learner = small(accumulate=3)
    x, _ = blobs(2)
    assert learner.learn(x, ["a", "b"]).waiting == 2
    assert learner.predict(x).tolist() == [None, None] and learner.labels == []


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
