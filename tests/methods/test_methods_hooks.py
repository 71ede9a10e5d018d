"""When a method's hooks are called, with what, and that a task whose hook fails never was."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from evenstream import Learner
from evenstream.core.memory import X, Y
from evenstream.errors import InputError, NonFiniteLoss
from evenstream.methods.er import ER
from evenstream.policies.rules import ArgMax
from evenstream.policies.storing import BalancedReservoir, Reservoir
from tests.helpers.own_methods import NAMES, OPTIMIZERS, Teacher, named
from tests.helpers.small_streams import (
    DIM,
    Noisy,
    blobs,
    class_stream,
    feed,
    refused,
    small,
)


@named
@dataclass
class Recorder(ER):
    """Plain replay that notes when it is called and what is known then."""

    def __post_init__(self):
        super().__post_init__()
        self.calls = []

    def note(self, what, *values):
        self.calls.append((what, *values))

    def on_setup(self, learner):
        self.note("setup", learner.network.head.out_features)

    def on_new_classes(self, learner, first):
        self.note("new classes", first, learner.network.head.out_features)

    def training_rows(self, step):
        self.note("rows", len(step.memory), step.known, step.n_classes)
        return super().training_rows(step)

    def loss(self, step):
        self.note("loss", len(step.labels()))
        self.weights = step.network.head.weight.detach().clone()
        return super().loss(step)

    def after_step(self, step):
        moved = not torch.equal(step.network.head.weight, self.weights)
        self.note("after", len(step.memory), moved)

    def stored_rows(self, step):
        self.note("stored", len(step.memory))

    def on_task_start(self, learner, data):
        self.note("start", learner.task, data and (data.raw.tolist(), data.y.tolist()))
        return [0, 2]

    def on_epoch_start(self, learner):
        self.note("epoch", learner.task)

    def on_task_end(self, learner, data):
        self.note("end", learner.task, data and (data.raw.tolist(), data.y.tolist()))


def test_hooks_come_in_order():
    learner = small(Recorder(), memory=10, replay_batch=2)
    x, _ = blobs(3)
    learner.learn(x, ["a", "b", "a"])
    assert learner.method.calls == [  # type: ignore[attr-defined]
        ("setup", 0),
        ("new classes", 0, 2),
        ("rows", 0, 0, 2),
        ("loss", 3),
        ("after", 0, True),
        ("stored", 0),
    ]
    learner.method.calls.clear()  # type: ignore[attr-defined]
    learner.learn(x, ["a", "b", "a"])
    learner.learn(x, ["a", "c", "d"])
    assert learner.method.calls == [  # type: ignore[attr-defined]
        ("rows", 3, 2, 2),
        ("loss", 5),
        ("after", 3, True),
        ("stored", 3),
        ("new classes", 2, 4),
        ("rows", 6, 2, 4),
        ("loss", 5),
        ("after", 6, True),
        ("stored", 6),
    ]


def test_task_hooks():
    learner = small(Recorder())
    data = np.ones((3, DIM), np.float32), ["a", "b", "a"]
    assert learner.start_task(data=data) == [0, 2]
    assert learner.labels == ["a", "b"]
    learner.start_epoch()
    learner.end_task(data)
    learner.start_task()
    learner.end_task()
    shown = ([[1.0] * DIM] * 3, [0, 1, 0])
    assert learner.method.calls == [  # type: ignore[attr-defined]
        ("setup", 0),
        ("new classes", 0, 2),
        ("start", 0, shown),
        ("epoch", 0),
        ("epoch", 0),
        ("end", 0, shown),
        ("start", 1, None),
        ("epoch", 1),
        ("end", 1, None),
    ]
    assert small("er").start_task() == []


def test_loading_sets_up_once(tmp_path):
    feed(small(Recorder()), class_stream()[:2]).save(tmp_path)
    loaded = Learner.load(tmp_path, method=Recorder())
    assert [call[0] for call in loaded.method.calls] == ["setup"]  # type: ignore[attr-defined]


def test_epochs_begin_inside_tasks_only():
    with pytest.raises(InputError, match="start_task first"):
        small("er").start_epoch()


def test_boundaries_that_a_method_needs():
    learner = small(Teacher(), accumulate=3)
    x, y = blobs(2)
    refused(learner, lambda: learner.learn(x, y), InputError, "start_task")
    learner.start_task()
    learner.learn(x, y)
    learner.end_task()
    refused(learner, lambda: learner.learn(x, y), InputError, "start_task")


def test_gathered_rows_are_learned_in_their_own_task():
    learner, twin = small(Recorder(), accumulate=9), small(Recorder(), accumulate=9)
    for each, last in ((learner, Learner.end_task), (twin, Learner.flush)):
        each.start_task()
        feed(each, class_stream(2))
        last(each)
    assert learner.step == 1 and not learner.progress.pending
    assert learner.method.calls[-2][0] == "stored" and learner.method.calls[-1][0] == "end"  # type: ignore[attr-defined]
    twin.end_task()
    assert learner.fingerprint() == twin.fingerprint()


def test_labels_announced_for_a_task_do_not_have_to_be_in_the_next():
    learner = small("er-las:prior=macro", accumulate=9)
    x, _ = blobs(4)
    for labels in (["a", "b"] * 2, ["c", "d"] * 2):
        learner.start_task(dict.fromkeys(labels, 2))
        learner.learn(x, labels)
        learner.end_task()
    assert (learner.step, learner.labels) == (2, ["a", "b", "c", "d"])


@named
@dataclass
class Unending(ER):
    """Its tasks never end."""

    def on_task_end(self, learner, data):
        learner.update(learner.network.head.weight.square().sum())
        raise InputError("not yet")


@pytest.mark.parametrize("options", OPTIMIZERS)
def test_a_task_that_cannot_end_has_not_learned_the_gathered_rows(options):
    learner = small(Unending(), Noisy(), accumulate=6, **options)
    learner.start_task()
    feed(learner, class_stream(3))  # one step, four rows wait
    x, _ = blobs(2)
    learner.learn(x[:1], ["new"])
    assert len(learner.progress.pending) == 2
    refused(learner, lambda: learner.end_task((x, ["new", "newer"])), InputError, "not yet")
    assert len(learner.progress.pending) == 2 and learner.in_task


@pytest.mark.parametrize(
    "data",
    [
        (np.ones((3, DIM), np.float32), ["a", "b"]),
        (np.ones((3, DIM + 1), np.float32), ["a", "b", "a"]),
        (np.full((3, DIM), np.nan, np.float32), ["a", "b", "a"]),
    ],
)
def test_bad_task_data_is_refused_without_a_trace(data):
    learner = feed(small("er"), class_stream()[:2])
    before = learner.fingerprint()
    with pytest.raises(InputError):
        learner.start_task(data=data)
    assert learner.fingerprint() == before and not learner.in_task


def test_a_task_that_fails_to_begin_leaves_no_trace():
    @named
    @dataclass
    class Failing(ER):
        def on_task_start(self, learner, data):
            raise InputError("no")

    learner = small(Failing())
    before = learner.fingerprint()
    with pytest.raises(InputError, match="no"):
        learner.start_task(data=(np.ones((3, DIM), np.float32), ["a", "b", "a"]))
    assert learner.fingerprint() == before and learner.labels == [] and not learner.built


@named
@dataclass
class AtTaskEnd(ER):
    """Fine-tunes and refills the memory at task ends; may fail at any point of it."""

    fail: str = ""

    def on_task_start(self, learner, data):
        self.tensors["started"] = torch.rand(2)
        if self.fail == "start":
            raise InputError("not ready")

    def on_task_end(self, learner, data):
        self.drawn = torch.rand(3)  # the learner's own global generator
        x, y = learner.memory.field(X).clone(), learner.memory.field(Y).clone()
        for group in ("network", "head", "network", "head"):
            learner.update(F.cross_entropy(learner.network(x), y), group)
        assert len(learner.trained._undo) <= 3  # a long fine-tuning does not pile up copies
        learner.memory.clear()
        learner.memory.put(torch.arange(2), {X: x[:2], Y: y[:2]})
        if self.fail == "end":
            learner.update(F.cross_entropy(learner.network(x), y) * float("nan"))


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_a_failing_task_hook_leaves_no_trace(options):
    def make(fail=""):
        return small(AtTaskEnd(), Noisy(), **options)

    stream = class_stream(6)
    learner, twin = make(), make()
    learner.method.fail = "start"
    refused(learner, learner.start_task, InputError, "not ready")
    assert learner.task == -1 and not learner.in_task
    learner.method.fail = ""
    for each in (learner, twin):
        each.start_task()
        feed(each, stream)
    learner.method.fail = "end"
    refused(learner, learner.end_task, NonFiniteLoss)
    assert learner.in_task and len(learner.memory) == 12
    learner.method.fail = ""
    outside = torch.get_rng_state()
    for each in (learner, twin):
        each.end_task()
        assert len(each.memory) == 2 and not each.in_task
    assert torch.equal(torch.get_rng_state(), outside)
    assert torch.equal(learner.method.drawn, twin.method.drawn)
    assert learner.fingerprint() == twin.fingerprint()


@pytest.mark.parametrize("spec", ["er@ema", "mkd", "ss-il:refresh=1", "er@post-hoc", "mkd@ema"])
def test_a_failure_in_the_last_hook_of_a_step_leaves_no_trace(spec, monkeypatch):
    learner = feed(small(spec), class_stream(4)[:3])
    before, (x, labels) = learner.fingerprint(), class_stream(4)[3]
    last = type(learner.parts[-1])
    real = last.after_step  # type: ignore[attr-defined]

    def failing(part, step):
        real(part, step)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(last, "after_step", failing)
        with pytest.raises(MemoryError):
            learner.learn(x, labels)
    assert learner.fingerprint() == before
    learner.learn(x, labels)
    assert learner.fingerprint() == feed(small(spec), class_stream(4)).fingerprint()


def failing(*args):
    raise MemoryError


class AfterStep:
    after_step = failing


class FullReservoir(Reservoir):
    place = failing


class FailingRule(AfterStep, ArgMax):
    pass


class FailingER(AfterStep, ER):
    pass


class ChoosyER(ER):
    stored_rows = failing


@pytest.mark.parametrize(
    ("method", "policies"),
    [
        (ER(), {"storing": FullReservoir()}),
        (ER(), {"predict": FailingRule()}),
        (FailingER(), {}),
        (ChoosyER(), {}),
    ],
    ids=["storing", "rule", "method", "stored rows"],
)
def test_what_comes_after_the_update_is_taken_to_fail(method, policies):
    learner = Learner(method, "mlp", memory=10, seed=0, **policies)
    x, labels = class_stream(4)[0]
    learner.prepare(x)
    before = learner.fingerprint()
    with pytest.raises(MemoryError):
        learner.learn(x, labels)
    assert learner.fingerprint() == before


def test_who_cannot_fail_after_the_update_says_so():
    class Careful(FailingER):
        may_refuse_late = False

    class Bold(Careful):
        after_step = failing

    declared = [ER, FailingER, Careful, Bold, Reservoir, FullReservoir, BalancedReservoir]
    late = [cls.may_refuse_late for cls in declared]  # type: ignore[attr-defined]
    assert late == [False, True, False, True, False, True, True]
