"""Several passes over a task, and methods that look at a task's data more than once."""

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import LinearLR

from evenstream import Learner
from evenstream.checkpoint import has_checkpoint, read_checkpoint
from evenstream.core.optimizers import OPTIMIZERS
from evenstream.errors import InputError
from evenstream.interruption import Interrupted
from evenstream.methods import register
from evenstream.methods.er import ER
from evenstream.run import preparation
from evenstream.run.config import read_milestones
from evenstream.run.runner import resume_run, start_run
from evenstream.streams import open_stream
from tests.helpers.small_runs import StopAfter, outcome, small_config

STEPS = 10
"""Of one epoch of one task."""
REHEARSED = 2
"""Rows of the step that a run tries out before it begins."""


@dataclass
class Peeking(ER):
    """Holds out three rows, counts epochs, and trains once more when the task ends."""

    name = "peeking"
    needs = frozenset({"boundaries", "second_pass"})

    def on_task_start(self, learner, data):
        self.tensors["held"] = data.raw[[0, 5, 7]]
        return [0, 5, 7]

    def on_epoch_start(self, learner):
        self.tensors["epochs"] = self.tensors.get("epochs", torch.tensor(0)) + 1

    def loss(self, step):
        rows = step.incoming.raw[:, None] == self.tensors["held"]
        assert not rows.all(2).any(), "trained on a row that was held out"
        return super().loss(step)

    def on_task_end(self, learner, data):
        if self.fails:
            raise KeyboardInterrupt
        logits = learner.network(learner.preprocess.plain(data.raw))
        learner.update(learner.criterion.score(logits, data.y), "network")

    fails = False


@pytest.fixture
def peeking():
    return register("peeking")(Peeking)


def test_each_epoch_shows_every_sample_once_in_an_order_of_its_own(table):
    stream = open_stream(str(table), tasks=2, seed=3)
    orders = []
    for epoch in range(3):
        rows = np.concatenate([b.x for b in stream.batches(1, 4, epoch=epoch)])
        orders.append([tuple(row) for row in rows])
    assert all(Counter(order) == Counter(orders[0]) for order in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    first = np.concatenate([b.x for b in stream.batches(1, 4)])
    assert [tuple(row) for row in first] == orders[0]


def test_rows_that_are_held_out_are_left_out_of_every_epoch(table):
    stream = open_stream(str(table), tasks=2)
    x, labels = stream.task_data(0)
    held = [0, 3, 38]
    assert stream.steps(0, 4, held_out=3) == 10 and stream.steps(0, 4) == 10
    for epoch in range(2):
        shown = list(stream.batches(0, 4, epoch=epoch, held_out=held))
        rows = Counter(tuple(row) for batch in shown for row in batch.x)
        assert rows == Counter(tuple(row) for row in np.delete(x, held, axis=0))
        assert sum(len(batch.labels) for batch in shown) == len(labels) - 3


def test_epochs_are_steps(table, tmp_path):
    found = start_run(small_config(table, epochs=3), tmp_path / "run")
    assert found["steps"] == 2 * 3 * STEPS
    once = start_run(small_config(table), tmp_path / "once")
    assert once["steps"] == 2 * STEPS
    assert 0 < found["prequential_accuracy"] < 100  # of the first pass through each task
    assert 0 < found["prequential_recent"] < 100


@pytest.mark.parametrize("steps", [4, STEPS, STEPS + 1, 2 * STEPS - 1, 2 * STEPS, 3 * STEPS + 3])
@pytest.mark.parametrize("method", ["er-las", "peeking"])
def test_a_run_stopped_in_any_epoch_goes_on_exactly(table, tmp_path, peeking, method, steps):
    config = small_config(table, method, epochs=2, checkpoint_every=1000)
    start_run(config, tmp_path / "whole")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "cut", stop=StopAfter(steps))
    resume_run(tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_milestones_lower_the_rate_in_every_task_and_after_a_resume(table, tmp_path, monkeypatch):
    rates = []
    real = Learner.learn

    def learn(learner, x, labels, **options):
        result = real(learner, x, labels, **options)
        (group,) = learner.optimizer.param_groups
        if len(labels) > REHEARSED:
            rates.append(round(group["lr"], 9))
        assert learner.lr == group["lr"]
        return result

    monkeypatch.setattr(Learner, "learn", learn)
    config = small_config(table, lr=0.05, epochs=3, milestones=(1, 2), checkpoint_every=1000)
    start_run(config, tmp_path / "whole")
    assert rates == 2 * [rate for rate in (0.05, 0.005, 0.0005) for _ in range(STEPS)]
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "cut", stop=StopAfter(STEPS + 3))
    resume_run(tmp_path / "cut")
    assert rates[6 * STEPS :] == rates[: 6 * STEPS]
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def half_head(groups, *, lr, momentum, weight_decay):
    parts = [{"params": groups["backbone"]}, {"params": groups["head"], "lr": lr / 2}]
    return SGD(parts, lr)


def warm(groups, *, lr, momentum, weight_decay):
    optimizer = SGD([p for group in groups.values() for p in group], lr)
    return optimizer, LinearLR(optimizer, 0.1, total_iters=5)


@pytest.mark.parametrize("falls", [{"lr_decay": "linear"}, {"epochs": 2, "milestones": (1,)}])
def test_a_falling_rate_reaches_all_groups_of_an_optimizer_or_none(
    falls, table, tmp_path, monkeypatch
):
    rates = []
    real = Learner.learn

    def learn(learner, x, labels, **options):
        result = real(learner, x, labels, **options)
        rates.append([group["lr"] for group in learner.optimizer.param_groups])
        return result

    monkeypatch.setattr(Learner, "learn", learn)
    with OPTIMIZERS.temporary({"half-head": half_head, "warm": warm}):
        start_run(small_config(table, optimizer="half-head", **falls), tmp_path / "half-head")
        body, head = np.array(rates).T
        assert body.min() < 0.2 * body.max() and np.allclose(head, body / 2)
        with pytest.raises(InputError, match="no multiples of lr"):
            start_run(small_config(table, optimizer="warm", **falls), tmp_path / "warm")
    assert not (tmp_path / "warm").exists()


@pytest.mark.parametrize("text", ["0", "3", "-1", "one", "1;2", "1,", ",", "٣"])
def test_milestones_that_make_no_sense(table, text):
    with pytest.raises(InputError, match="milestones"):
        small_config(table, epochs=3, milestones=read_milestones(text))
    with pytest.raises(InputError, match="milestones"):
        small_config(table, milestones=(1,))


def test_rows_of_the_first_epoch_only_are_offered_to_the_memory(table, tmp_path):
    for store, offered in (("every-epoch", 3 * 80), ("first-epoch", 80)):
        start_run(small_config(table, "er", epochs=3, store=store), tmp_path / store)
        saved = read_checkpoint(tmp_path / store / "checkpoint")
        assert saved["learner"]["memory"]["seen"] == offered


def test_a_task_end_that_is_cut_off_is_made_again_from_just_before(
    table, tmp_path, peeking, monkeypatch
):
    config = small_config(table, "peeking", epochs=2, checkpoint_every=1000)
    start_run(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(peeking, "fails", True)
        with pytest.raises(KeyboardInterrupt):
            start_run(config, tmp_path / "cut")
    assert has_checkpoint(tmp_path / "cut/checkpoint")
    saved = read_checkpoint(tmp_path / "cut/checkpoint")
    assert saved["learner"]["progress"]["step"] == 2 * STEPS
    assert saved["learner"]["progress"]["in_task"]
    trained, real = [], Learner.learn

    def learn(learner, x, labels, **options):
        if len(labels) > REHEARSED:
            trained.append(learner.task)
        return real(learner, x, labels, **options)

    monkeypatch.setattr(Learner, "learn", learn)
    resume_run(tmp_path / "cut")
    assert set(trained) == {1}, "the first task was trained again"
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_what_happens_between_batches_is_training_time(table, tmp_path, peeking, monkeypatch):
    monkeypatch.setattr(peeking, "on_epoch_start", lambda method, learner: time.sleep(0.05))
    monkeypatch.setattr(peeking, "on_task_end", lambda method, learner, data: time.sleep(0.2))
    found = start_run(small_config(table, "peeking", epochs=2), tmp_path / "run")
    assert found["train_seconds"] >= 2 * (2 * 0.05 + 0.2)


def test_hooks_of_a_run(table, tmp_path, peeking):
    start_run(small_config(table, "peeking", epochs=3), tmp_path / "run")
    saved = read_checkpoint(tmp_path / "run/checkpoint")
    assert int(saved["learner"]["part0"]["tensors"]["epochs"]) == 2 * 3


def test_streams_without_boundaries_have_one_epoch(table, tmp_path):
    stream = f"c-{table}:boundaries=false"
    with pytest.raises(InputError, match="one epoch only"):
        start_run(small_config(stream, epochs=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_that_does_not_fit_into_memory_is_refused(table, tmp_path, peeking, monkeypatch):
    monkeypatch.setattr(preparation, "MOST_TASK_BYTES", 100)
    with pytest.raises(InputError, match="peeking looks at a whole task's data at once"):
        start_run(small_config(table, "peeking"), tmp_path / "run")
    with pytest.raises(InputError, match="needs every sample of a task"):
        preparation.fit(
            small_config(table, "peeking", corrupt="skip"), open_stream(str(table), tasks=2)
        )
