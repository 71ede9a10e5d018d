"""Several updates for each arriving batch: micro-batches, or the batch again with new replay."""

import numpy as np
import pytest
import torch

from evenstream import Learner, register
from evenstream.composition import compose
from evenstream.core.memory import X
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.methods import METHODS
from evenstream.methods.er import Replay
from evenstream.testing import feed as feed_tasks
from evenstream.testing import make_learner, toy_stream
from tests.helpers.small_streams import (
    Noisy,
    blobs,
    class_stream,
    feed,
    images,
    parameters,
    refused,
    same,
    small,
)


class Spy:
    """Notes the rows of each update, and what the criterion observes."""

    def __init__(self, learner):
        self.raw, self.observed = [], []
        loss, observe = learner.method.loss, learner.criterion.observe

        def spied_loss(step):
            self.raw.append([group.raw.clone() for group in step.groups])
            return loss(step)

        def spied_observe(labels, n_classes):
            self.observed.append(labels.tolist())
            observe(labels, n_classes)

        learner.method.loss, learner.criterion.observe = spied_loss, spied_observe


def as_set(rows):
    return {tuple(row) for row in rows.tolist()}


def test_micro_steps_cut_batch_and_replay_and_store_the_batch_once():
    learner = small("er-las:window=4", memory=50, replay_batch=10, steps=4)
    spy = Spy(learner)
    for index in range(5):
        x, y = blobs(10, seed=index)
        before = as_set(learner.memory.field(X)) if index else set()
        result = learner.learn(x, y)
        made = spy.raw[4 * index : 4 * index + 4]
        assert torch.equal(torch.cat([rows[0] for rows in made]), torch.from_numpy(x))
        assert [len(rows[0]) for rows in made] == [3, 3, 2, 2]
        if index:
            assert [len(rows[1]) for rows in made] == [3, 3, 2, 2]
            assert result.rows == 20
        # never a row of the batch that has just arrived
        assert all(as_set(rows[1]) <= before for rows in made)
        assert (result.step, learner.memory.seen) == (index + 1, 10 * index + 10)
    assert len(spy.observed) == 20
    last_four = [label for labels in spy.observed[-4:] for label in labels]
    counted = learner.criterion.prior.weights()  # type: ignore[attr-defined]
    assert torch.equal(counted, torch.bincount(torch.tensor(last_four), minlength=len(counted)))


def test_micro_steps_without_memory_are_small_batches():
    whole = small("fine-tune-las:window=2", memory=0, steps=3, momentum=0.9)
    parts = small("fine-tune-las:window=2", memory=0, momentum=0.9)
    for index in range(4):
        x, y = blobs(7, seed=index)
        if not index:  # all labels at once, as the head's rows are in order of arrival
            x[:3], y[:3] = blobs(3)[0], [0, 1, 2]
        whole.learn(x, y)
        for rows in np.array_split(np.arange(7), 3):
            parts.learn(x[rows], [y[row] for row in rows])
    assert same(parameters(whole), parameters(parts))
    assert (whole.step, parts.step) == (4, 12)


def test_repeated_steps_train_on_the_whole_batch_with_new_draws():
    learner = small("er", memory=60, replay_batch=6, steps=3, step_rows="repeat")
    spy = Spy(learner)
    for index in range(4):
        x, y = blobs(8, seed=index)
        result = learner.learn(x, y)
        made = spy.raw[3 * index : 3 * index + 3]
        assert all(torch.equal(rows[0], torch.from_numpy(x)) for rows in made)
        assert learner.memory.seen == 8 * (index + 1)
        if index:
            assert len({tuple(sorted(as_set(rows[1]))) for rows in made}) > 1
            assert result.rows == 3 * (8 + 6)


def test_repeated_steps_make_new_views():
    seen = []

    @register("my-watcher")
    class Watcher(Replay):
        def loss(self, step):
            seen.append(step.incoming.x.clone())
            return super().loss(step)

    learner = small("my-watcher", "convnet", augment="crop", steps=2, step_rows="repeat")
    learner.learn(images(6, side=16), [0, 1] * 3)
    assert not torch.equal(*seen)


@pytest.mark.parametrize(("rows", "updates"), [(1, 1), (3, 3), (9, 4)])
def test_a_part_has_a_row_at_least(rows, updates):
    learner = small(steps=4)
    spy = Spy(learner)
    learner.learn(*blobs(rows))
    assert len(spy.raw) == updates


def test_accuracy_is_that_of_rows_not_trained_on_yet():
    """Each micro-step is asked about its own rows before its update."""
    learner = feed(small("fine-tune", memory=0, steps=2, lr=0.5), class_stream(6, batch=8))
    x, labels = class_stream(7, batch=8)[-1]
    alone = Learner.from_state(learner.state())
    alone.options = small("fine-tune", memory=0, lr=0.5).options
    first = alone.learn(x[:4], labels[:4]).accuracy
    second = alone.learn(x[4:], labels[4:]).accuracy
    assert learner.learn(x, labels).accuracy == pytest.approx((first + second) / 2)


MODES = ["micro", "repeat"]
EVERY = [*METHODS, "er-las@ema", "clib-las", "mro-las:update_first=true"]


def possible(method, mode):
    return compose(method).method.why_not_steps(mode) is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", EVERY)
def test_every_method_resumes_exactly_or_says_why_not(method, mode):
    if not possible(method, mode):
        with pytest.raises(InputError, match="several steps"):
            make_learner(method, steps=2, step_rows=mode)
        return
    stream = toy_stream(6)
    learner = feed_tasks(make_learner(method, steps=2, step_rows=mode), stream[:4])
    module = make_learner(method).model
    resumed = Learner.from_state(learner.state(), module)
    assert (
        feed_tasks(resumed, stream[4:]).fingerprint()
        == feed_tasks(learner, stream[4:]).fingerprint()
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["er-las@ema", "der++", "mir", "clib", "er-obc"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_a_failure_in_the_last_step_undoes_all_of_them(method, mode, optimizer):
    learner = small(method, Noisy(), steps=3, step_rows=mode, optimizer=optimizer)
    feed(learner, class_stream(6, batch=6))
    made, loss = [], learner.method.loss

    def broken(step):
        made.append(step)
        return loss(step) * (float("inf") if len(made) == 3 else 1.0)

    learner.method.loss = broken
    x, _ = blobs(6)
    refused(learner, lambda: learner.learn(x, ["new"] * 6), NonFiniteLoss)
    assert len(made) == 3


def test_a_scheduler_is_told_of_each_update():
    def falling(groups):
        made = torch.optim.SGD([*groups["backbone"], *groups["head"]], lr=1.0)
        return made, torch.optim.lr_scheduler.ExponentialLR(made, 0.5)

    learner = small("fine-tune", memory=0, optimizer=falling, steps=3)
    learner.learn(*blobs(6))
    assert learner.lr == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps must be"),
        ({"steps": 2.5}, "steps must be"),
        ({"steps": 2, "step_rows": "half"}, "step_rows must be one of micro, repeat"),
        ({"step_rows": "repeat"}, "set steps to 2 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        small(**options)
