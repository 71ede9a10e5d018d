"""Several threads: each call is made whole, and results are those of one thread."""

import copy
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Learner
from tests.helpers.small_streams import DIM, Noisy, blobs, class_stream, feed, small

STREAM = class_stream(30)


def in_threads(*actions):
    """Run them at once, to their ends; what one raises is raised."""
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(a) for a in actions]]


@pytest.mark.parametrize(
    ("method", "model"),
    [("er-las", "mlp-norm"), ("er@ncm", "mlp"), ("er-las@ema", "own"), ("er-obc", "own")],
)
def test_threads_that_read_do_not_change_what_is_learned(method, model, tmp_path):
    def make():
        return small(method, Noisy() if model == "own" else model)

    alone, learner = feed(make(), STREAM), make()
    ended, reads = threading.Event(), 0

    def learn():
        try:
            feed(learner, STREAM)
        finally:
            ended.set()

    def read():
        nonlocal reads
        x = blobs(5)[0]
        while not ended.is_set():
            assert len(learner.predict(x)) == 5
            assert learner.predict_proba(x).shape[1] <= len(learner.labels)
            assert learner.fingerprint() and learner.state()["progress"]["step"] <= learner.step
            reads += 1

    def save():
        while not ended.is_set():
            learner.save(tmp_path)
            time.sleep(0.002)

    in_threads(learn, read, read, save)
    assert reads and learner.fingerprint() == alone.fingerprint()
    learner.save(tmp_path)
    if model != "own":
        assert Learner.load(tmp_path).fingerprint() == alone.fingerprint()


def test_threads_that_learn_make_every_step():
    learner = small("er-las", Noisy())
    in_threads(*[lambda: feed(learner, STREAM)] * 3)
    assert learner.step == 3 * len(STREAM) and learner.memory.seen == 12 * len(STREAM)
    learner.learn(*STREAM[0])


def test_learners_with_dropout_in_threads_are_as_if_alone():
    modules = [Noisy(seed=seed) for seed in range(3)]  # making one draws from PyTorch's generator

    def run(seed):
        return feed(small("er", modules[seed], seed=seed), STREAM).fingerprint()

    torch.manual_seed(0)
    outside = torch.get_rng_state()
    alone = [run(seed) for seed in range(3)]
    modules = [Noisy(seed=seed) for seed in range(3)]
    assert in_threads(*[lambda seed=seed: run(seed) for seed in range(3)]) == alone
    assert torch.equal(torch.get_rng_state(), outside)


def test_a_learning_rate_set_by_another_thread_holds_for_the_network_and_the_options():
    learner = small("er-las", Noisy())
    rates = np.linspace(0.01, 0.02, 50)
    in_threads(lambda: feed(learner, STREAM), lambda: [setattr(learner, "lr", r) for r in rates])
    assert learner.lr == 0.02
    assert {group["lr"] for group in learner.optimizer.param_groups} == {0.02}


class Other(nn.Module):
    """Asks another learner in its own forward pass."""

    def __init__(self, other):
        super().__init__()
        self.linear, self.ask = nn.Linear(DIM + 2, 5), other.predict_proba

    def forward(self, x):
        return self.linear(torch.cat([x, torch.from_numpy(self.ask(x))], 1))


def test_a_learner_inside_another_does_not_block_them():
    inner = small("er-las", Noisy())
    batches = [blobs(4, classes=2, seed=seed) for seed in range(20)]
    inner.learn(np.zeros((2, DIM), np.float32), [0, 1])
    outer = small("er", Other(inner))
    in_threads(lambda: feed(inner, batches), lambda: feed(outer, batches))
    assert inner.step == 21 and outer.step == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_gets_whole_learners_while_another_thread_uses_them():
    learner, other = small("er-las", Noisy()), small("er", Noisy())
    states, ended = {}, threading.Event()
    for x, labels in STREAM:
        learner.learn(x, labels)
        states[learner.step] = learner.fingerprint()
    learner = small("er-las", Noisy())

    def use():
        try:
            for x, labels in STREAM[:-1]:
                learner.learn(x, labels)
                learner.predict(x)
        finally:
            ended.set()

    thread = threading.Thread(target=use)
    thread.start()
    children = 0
    while not ended.is_set():
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            whole = learner.step == 0 or learner.fingerprint() == states[learner.step]
            whole = whole and (not learner.built or learner.network.training)
            learner.learn(*STREAM[learner.step])
            other.learn(*STREAM[0])
            os._exit(0 if whole and learner.fingerprint() == states[learner.step] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        children += 1
    thread.join()
    assert children


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_goes_on_by_itself(copied):
    learner = feed(small("er-las", "mlp-norm"), STREAM[:5])
    other = copied(learner)
    with learner.lock:
        in_threads(lambda: feed(other, STREAM[5:]))
    assert other.fingerprint() == feed(learner, STREAM[5:]).fingerprint()


def test_a_copy_made_while_another_thread_learns_is_whole():
    states, learner = set(), small("er-las", Noisy())
    for x, labels in STREAM:
        learner.learn(x, labels)
        states.add(learner.fingerprint())
    learner = feed(small("er-las", Noisy()), STREAM[:1])
    copies = []
    in_threads(
        lambda: feed(learner, STREAM[1:]),
        lambda: copies.extend(copy.deepcopy(learner).fingerprint() for _ in range(20)),
    )
    assert set(copies) <= states


def test_ctrl_c_while_waiting_for_another_thread():
    learner = feed(small(), STREAM[:2])
    taken, done = threading.Event(), threading.Event()

    def hold():
        with learner.lock:
            taken.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    timer = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*STREAM[2])
    timer.join()
    done.set()
    thread.join()
    learner.learn(*STREAM[2])
    assert in_threads(lambda: learner.learn(*STREAM[3]).step) == [4]
