"""Predictions wait for no step: they answer exactly as after the last one that is complete."""

import copy
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import EvenstreamError, Frozen, Learner, methods
from evenstream.core.memory import Memory
from evenstream.core.twins import Twins
from evenstream.policies.rules import InferenceRule
from tests.helpers.small_streams import DIM, Noisy, blobs, class_stream, feed, small
from tests.learner.test_learner_threads import in_threads

STREAM = class_stream(16)
X = blobs(6, seed=7)[0]


class Gate(nn.Module):
    """A network whose training stops at a gate when it is shut."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(DIM, 8), nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        if self.training:
            REACHED.set()
            assert OPEN.wait(60)
        return self.drop(self.norm(self.linear(x))).relu()


REACHED, OPEN = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def open_gate():
    OPEN.set()
    yield
    OPEN.set()


def within(seconds, action):
    """What the action returns, in another thread; fails if it takes longer."""
    found = []
    thread = threading.Thread(target=lambda: found.append(action()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it waits"
    return found[0]


@pytest.mark.parametrize("refuse", [False, True])
def test_a_prediction_does_not_wait_for_the_step_under_way(refuse, monkeypatch):
    learner = feed(small("er", Gate()), STREAM[:5])
    before, labels, step = learner.predict_proba(X), learner.labels, learner.step
    mode = [module.training for module in learner.network.modules()]
    learner.snapshot()
    OPEN.clear()
    REACHED.clear()
    if refuse:
        loss = learner.method.loss
        monkeypatch.setattr(learner.method, "loss", lambda step: loss(step) * torch.nan)

    def learn():
        if refuse:
            with pytest.raises(EvenstreamError):
                learner.learn(STREAM[5][0], ["quite new"] * 4)
        else:
            learner.learn(STREAM[5][0], ["quite new"] * 4)

    thread = threading.Thread(target=learn)
    thread.start()
    assert REACHED.wait(60)
    try:
        assert np.array_equal(within(30, lambda: learner.predict_proba(X)), before)
        assert within(30, lambda: list(learner.predict(X))) == [
            labels[index] for index in before.argmax(1)
        ]
        assert within(30, lambda: learner.labels) == labels
        assert np.array_equal(within(30, lambda: learner.snapshot().predict_proba(X)), before)
        assert within(30, lambda: learner.snapshot().step) == step
    finally:
        OPEN.set()
        thread.join()
    after = learner.predict_proba(X)
    assert mode == [module.training for module in learner.network.modules()]
    if refuse:
        assert learner.step == step and np.array_equal(after, before)
    else:
        assert learner.step == step + 1 and after.shape[1] == before.shape[1] + 1


def test_a_learner_that_steps_in_another_thread_needs_no_asking():
    learner = small("er", Gate())
    OPEN.clear()
    REACHED.clear()
    thread = threading.Thread(target=lambda: learner.learn(*STREAM[0]))
    thread.start()
    assert REACHED.wait(60)
    try:  # the first step is under way, and there is no network yet as far as others can tell
        assert within(30, lambda: list(learner.predict(X))) == [None] * len(X)
        assert learner.predict_proba(X).shape == (len(X), 0) and learner.labels == []
    finally:
        OPEN.set()
        thread.join()
    assert len(learner.labels) == learner.predict_proba(X).shape[1] > 0


CASES = {
    "network": lambda: small("er-las", "mlp-norm"),
    "own": lambda: small("er-las", Noisy()),
    "average": lambda: small("er-las@ema", Noisy()),
    "memory": lambda: small("er@ncm", "mlp"),
    "counts": lambda: small("er@post-hoc", "mlp"),
    "discriminant": lambda: small("slda", "mlp"),
    "ridge": lambda: small("ranpac:width=30", "mlp"),
    "auto": lambda: Learner(memory=12, dtype="float32"),
    "students": lambda: small(methods.PEC(schedule="constant", teacher_width=5), "mlp"),
    "images": lambda: small("er-las:head=cosine", nn.Sequential(nn.Linear(DIM, 6), nn.Tanh())),
    "frozen": lambda: small("er-las", Frozen(Noisy(seed=3))),
}


@pytest.mark.parametrize("case", CASES)
def test_eight_threads_get_the_answers_of_complete_steps_and_change_none(case):
    torch.manual_seed(5)
    alone, answers = CASES[case](), {0: np.zeros((len(X), 0), np.float32)}
    for x, labels in STREAM:
        alone.learn(x, labels)
        answers[alone.step] = alone.predict_proba(X)
    torch.manual_seed(5)
    learner, ended = CASES[case](), threading.Event()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)

    def learn():
        try:
            feed(learner, STREAM)
        finally:
            ended.set()

    def predict():
        met = set()
        while not ended.is_set():
            taken = learner.snapshot()
            assert np.array_equal(taken.predict_proba(X), answers[taken.step])
            assert len(taken.labels) == answers[taken.step].shape[1]
            first, found, last = learner.step, learner.predict_proba(X), learner.step
            possible = [answers[step] for step in range(max(first - 1, 0), last + 1)]
            assert any(np.array_equal(found, each) for each in possible)
            met.add(taken.step)
            time.sleep(0.001)
        return met

    try:
        met = in_threads(learn, *[predict] * 8)[1:]
    finally:
        sys.setswitchinterval(interval)
    assert learner.fingerprint() == alone.fingerprint()
    assert len(set().union(*met)) > 1
    assert np.array_equal(learner.predict_proba(X), answers[len(STREAM)])


def test_one_thread_pays_for_no_snapshot_and_a_few_copies_are_enough_for_many():
    learner = small("er-las", "mlp")
    for x, labels in STREAM:
        learner.learn(x, labels)
        learner.predict(x)
    assert learner._snapshots.newest is None
    in_threads(lambda: learner.predict(X))
    assert learner._snapshots.newest is not None
    feed(learner, STREAM)
    assert len(learner._snapshots._free) == 1


def test_a_snapshot_that_is_kept_never_changes():
    learner, kept = small("er-las@ncm", "mlp-norm"), {}
    for x, labels in STREAM:
        learner.learn(x, labels)
        taken = learner.snapshot()
        kept[taken] = taken.predict_proba(X), taken.labels
    assert [taken.step for taken in kept] == list(range(1, len(STREAM) + 1))
    for taken, (answers, labels) in kept.items():
        assert np.array_equal(taken.predict_proba(X), answers) and taken.labels == labels
    assert len({answers.tobytes() for answers, _ in kept.values()}) == len(STREAM)


def test_a_snapshot_takes_priors_and_refuses_what_the_learner_refuses():
    learner = feed(small("er-las", "mlp"), STREAM)
    taken, priors = learner.snapshot(), dict.fromkeys(learner.labels, 1.0)
    assert np.array_equal(taken.predict(X, priors), learner.predict(X, priors))
    assert np.array_equal(taken.predict_indices(X), learner.predict_indices(X))
    with pytest.raises(EvenstreamError, match="never learned"):
        taken.predict(X, {"unheard of": 1.0})
    with pytest.raises(EvenstreamError, match="shape"):
        taken.predict(np.zeros((2, DIM + 1)))


class Odd(nn.Module):
    """Keeps state in all the places that a module may have."""

    def __init__(self):
        super().__init__()
        self.linear, self.recurrent = nn.Linear(DIM, 6), nn.LSTM(6, 5, batch_first=True)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("growing", torch.zeros(0))
        self.calls, self.tensor, self.list = 0, torch.zeros(3), [0.0]
        self.layers, self.nested = [self.linear], {"a": [1, {"b": 0.0}]}
        self.method = self.scaled

    def scaled(self, x):
        return self.linear(x) * (1 + self.list[0])

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.seen += len(x)
            self.growing = torch.arange(self.calls, dtype=torch.float32)
            self.tensor[0] += 1
            self.list[0] += 0.1
            self.nested["a"][1]["b"] += 0.01
        hidden = self.method(x) + self.layers[0](x) + self.nested["a"][1]["b"]
        out = self.recurrent(hidden.unsqueeze(1))[0].squeeze(1)
        return out + self.calls + self.growing.sum() + self.tensor[0] + self.seen


def test_copies_of_modules_follow_whatever_changes_in_them():
    module, twins = Odd(), Twins()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    x, found = torch.from_numpy(X), []
    for step in range(6):
        if step == 3:
            module.linear = nn.Linear(DIM, 6)
            module.layers = [module.linear]
        twin = twins.bring([module])[module]
        with torch.no_grad():
            module.eval()
            expected = module(x)
            module.train()
            assert torch.equal(twin(x), expected) and not twin.training
        assert not any(p.requires_grad for p in twin.parameters())
        found.append(expected)
        module(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            assert torch.equal(twin(x), expected)
    assert twin is not module and len({each.sum().item() for each in found}) == 6


def test_copies_are_used_again_while_the_layers_are_the_same():
    module, twins = Noisy(), Twins()
    twin = twins.bring([module])[module]
    with torch.inference_mode():  # in which a user may predict
        assert twins.bring([module])[module] is twin
    assert twins.bring([module])[module] is twin


class Draws(Noisy):
    """Drops units when it predicts, too."""

    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5, training=True)


class Uncopied(Noisy):
    """Cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("no copies of this")


@pytest.mark.parametrize(("module", "why"), [(Draws, "draws random"), (Uncopied, "no copies")])
def test_networks_that_cannot_answer_beside_a_step_wait_as_before(module, why, caplog):
    alone, learner = feed(small("er", module()), STREAM), small("er", module())
    ended = threading.Event()

    def learn():
        feed(learner, STREAM)
        ended.set()

    def predict():
        while not ended.is_set():
            assert len(learner.predict(X)) == len(X)

    in_threads(learn, predict)
    assert learner.fingerprint() == alone.fingerprint() or module is Draws
    with pytest.raises(EvenstreamError, match=why):
        learner.snapshot()
    assert why in caplog.text and len(caplog.records) == 1


def test_a_memory_copy_follows_writes_undone_ones_and_refills():
    draw = np.random.default_rng(0)
    memory, copied = Memory(20), Memory(0)

    def put(count):
        slots = draw.permutation(20)[:count] if len(memory) == 20 else np.arange(count)
        y = torch.from_numpy(draw.integers(0, 4, count))
        values = {"x": torch.from_numpy(draw.random((count, 3))), "y": y}
        memory.put(torch.from_numpy(np.ascontiguousarray(slots)), values)

    def equal():
        assert copied.size == memory.size and copied.fields == memory.fields
        assert torch.equal(copied.class_counts, memory.class_counts)
        return all(torch.equal(copied.field(n), memory.field(n)) for n in memory.fields)

    put(20)
    for turn in range(60):
        if turn % 3 == 0:
            for _ in range(turn * 2):  # more than are remembered, now and then
                put(2)
        if turn % 4 == 1:
            mark = memory.mark()
            put(3)
            memory.restore(mark)
        if turn % 10 == 9:
            memory.clear()
            put(20)
        if turn == 30:
            memory.set_field("score", torch.arange(5), torch.ones(5))
        copied.follow(memory)
        assert equal()
        x = copied.field("x").clone()
        put(1)
        assert torch.equal(copied.field("x"), x)
    copied.follow(memory)
    before = copied.field("x").data_ptr()
    put(1)
    copied.follow(memory)
    assert copied.field("x").data_ptr() == before and equal()


class Stored(InferenceRule):
    """A rule of a user's that asks the memory, and says nothing about it."""

    def prepare(self, context):
        return len(context.memory)

    def scores(self, outputs, prepared):
        return outputs.logits * 0 + prepared


def test_a_rule_of_ones_own_finds_the_memory():
    learner = feed(small("er", "mlp", predict=Stored()), STREAM[:2])
    taken = learner.snapshot()
    feed(learner, STREAM[2:4])
    assert float(taken.scores(X)[0, 0]) == 8 and float(learner.scores(X)[0, 0]) == 12


def test_a_copy_has_no_snapshots_and_begins_anew():
    learner = feed(small("er-las", "mlp"), STREAM[:3])
    learner.snapshot()
    for other in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert other._snapshots.newest is None
        feed(other, STREAM[3:])
        assert np.array_equal(other.snapshot().predict_proba(X), other.predict_proba(X))
    assert learner.snapshot().step == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_predicts_and_learns_though_the_parent_was_in_the_middle_of_both():
    alone, answers = small("er@ncm", Noisy()), {}
    for x, labels in STREAM:
        alone.learn(x, labels)
        answers[alone.step] = alone.predict_proba(X)
    learner, ended = feed(small("er@ncm", Noisy()), STREAM[:1]), threading.Event()
    learner.snapshot()

    def learn():
        feed(learner, STREAM[1:-1])
        ended.set()

    def predict():
        while not ended.is_set():
            learner.predict_proba(X)

    threads = [threading.Thread(target=each) for each in (learn, predict, predict)]
    for thread in threads:
        thread.start()
    children = 0
    while not ended.is_set():
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            right = np.array_equal(learner.predict_proba(X), answers[learner.step])
            learner.learn(*STREAM[learner.step])
            right = right and np.array_equal(learner.predict_proba(X), answers[learner.step])
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        children += 1
    for thread in threads:
        thread.join()
    assert children


def test_corrections_are_seen_and_no_copy_keeps_what_was_deleted():
    learner = small("er@ncm", "mlp")
    for step, (x, labels) in enumerate(STREAM[:4]):
        learner.learn(x, labels, ids=[f"{step}-{row}" for row in range(len(x))])
    before = learner.snapshot()
    feed(learner, STREAM[4:6])
    learner.rename("class 0", "the first")
    assert learner.labels[learner.labels.index("the first")] == "the first"
    assert "the first" not in before.labels and "the first" in learner.snapshot().labels
    idle = learner._snapshots._free
    assert idle
    learner.forget(label="the first")
    kept = learner.snapshot()
    assert learner._snapshots._free is not idle
    assert 0 < len(kept._memory) == len(learner.memory) < 12
    assert np.array_equal(kept.predict_proba(X), copy.deepcopy(learner).predict_proba(X))
