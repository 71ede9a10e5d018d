"""What the learner promises to methods: hooks, rows, groups, own state, and undoing all of it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evenstream import Learner
from evenstream.errors import EvenstreamError, InputError, NonFiniteLoss, UnknownName
from evenstream.learner.averaging import average_into
from evenstream.learner.classifier import Classifier, frozen_copy
from evenstream.learner.heads import GrowingHead
from evenstream.learner.memory import X, Y
from evenstream.methods import METHODS, Method, make_method, register
from evenstream.methods.adjustment import LogitAdjustment
from evenstream.methods.er import ER
from evenstream.slots.inference import InferenceRule
from evenstream.slots.retrieval import Retrieval, Uniform
from evenstream.slots.updates import Placement, Update, reservoir_slots
from small_streams import DIM, Noisy, blobs, class_stream, feed, images, parameters, same, small

OPTIMIZERS = [{}, {"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}]
NAMES = ["sgd", "momentum", "adam"]


@pytest.fixture(autouse=True)
def only_for_this_test(monkeypatch):
    monkeypatch.setattr("evenstream.methods.base.METHODS", dict(METHODS))


def named(cls, name="under-test"):
    cls.name = name
    return cls


def refused(learner, action, error=EvenstreamError, match=None):
    before, modules = learner.fingerprint(), dict(learner.method.modules)
    with pytest.raises(error, match=match):
        action()
    assert learner.fingerprint() == before
    assert learner.method.modules == modules


# ---- order and arguments of hooks ----------------------------------------------------------------


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
    assert learner.method.calls == [
        ("setup", 0),
        ("new classes", 0, 2),
        ("rows", 0, 0, 2),
        ("loss", 3),
        ("after", 0, True),
        ("stored", 0),
    ]
    learner.method.calls.clear()
    learner.learn(x, ["a", "b", "a"])
    learner.learn(x, ["a", "c", "d"])
    assert learner.method.calls == [
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
    assert learner.method.calls == [
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
    assert learner.fingerprint() == before and learner.labels == [] and learner.network is None


@pytest.mark.parametrize("spec", ["er@ema", "mkd", "ss-il:refresh=1", "er@post-hoc", "mkd@ema"])
def test_a_failure_in_the_last_hook_of_a_step_leaves_no_trace(spec, monkeypatch):
    learner = feed(small(spec), class_stream(4)[:3])
    before, (x, labels) = learner.fingerprint(), class_stream(4)[3]
    last = type(learner.parts[-1])
    real = last.after_step

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


def test_weights_that_layers_share_are_averaged_once():
    shared = nn.Linear(3, 3)
    backbone = nn.Sequential(shared, nn.ReLU(), shared)
    network = Classifier(backbone, GrowingHead(3, 0, 2), torch.float32)
    average = frozen_copy(network)
    before = average.backbone[0].weight.clone()
    with torch.no_grad():
        shared.weight += 1
    average_into(average, network, 0.9)
    torch.testing.assert_close(average.backbone[0].weight, before + 0.1)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("fine-tune@ncm", {}, "fine-tune uses none"),
        ("fine-tune@rescaled", {}, "fine-tune uses none"),
        ("lwf@rescaled", {"memory": 0}, "memory=0"),
        ("er@bias-corrected", {"memory": 0}, "memory=0"),
        ("er@ema:decay=1", {}, "decay must lie in 0..0.99"),
        ("lwf:averaging=1", {}, "averaging must lie"),
    ],
)
def test_parts_that_would_do_nothing_are_refused(spec, options, message):
    with pytest.raises(InputError, match=message):
        small(spec, **options)


def test_epochs_begin_inside_tasks_only():
    with pytest.raises(InputError, match="start_task first"):
        small("er").start_epoch()


def test_loading_sets_up_once(tmp_path):
    feed(small(Recorder()), class_stream()[:2]).save(tmp_path)
    loaded = Learner.load(tmp_path, method=Recorder())
    assert [call[0] for call in loaded.method.calls] == ["setup"]


def test_no_loss_no_update():
    @named
    @dataclass
    class Idle(Method):
        def loss(self, step):
            return None

    learner = small(Idle())
    result = learner.learn(*blobs(4))
    before = parameters(learner)
    result = learner.learn(*blobs(4, seed=1))
    assert result.loss is None and result.step == 2 and result.rows == 8
    assert 0 <= result.accuracy <= 1
    assert same(parameters(learner), before)
    assert len(learner.memory) == 8  # storing goes on


# ---- which rows ----------------------------------------------------------------------------------


@named
@dataclass
class EveryOther(ER):
    """Trains on and stores every other incoming row, with a field of its own."""

    def training_rows(self, step):
        step.notes["chosen"] = torch.arange(0, len(step.incoming), 2)
        return [step.incoming.take(step.notes["chosen"]), step.retrieve(2)]

    def loss(self, step):
        step.remember(position=torch.arange(len(step.incoming)))
        return super().loss(step)

    def stored_rows(self, step):
        return step.notes["chosen"]


@pytest.mark.parametrize("adjusted", [False, True])
def test_chosen_rows_are_trained_observed_and_stored(adjusted):
    method = EveryOther()
    if adjusted:
        method.adjustment = LogitAdjustment(window=1)
    learner = small(method, memory=20)
    x, _ = blobs(5)
    assert learner.learn(x, ["a", "b", "c", "b", "a"]).rows == 3
    if adjusted:
        assert learner.criterion.prior.weights().tolist() == [2, 0, 1]  # "b" was not trained on
    assert torch.equal(learner.memory.field(X), torch.from_numpy(x[::2]))
    assert learner.memory.field(Y).tolist() == [0, 2, 0]
    assert learner.memory.field("position").tolist() == [0, 2, 4]
    assert learner.memory.seen == 3
    assert learner.learn(x[:4], ["a", "b", "c", "b"]).rows == 4
    assert learner.memory.field("position").tolist() == [0, 2, 4, 0, 2]


@named
@dataclass
class MemoryOnly(Method):
    """Takes in the batch first, then trains from memory alone."""

    memory_first = True
    needs = frozenset({"memory"})
    explode = False

    def training_rows(self, step):
        return [step.retrieve(3)]

    def loss(self, step):
        x, y = step.joint()
        return step.ce(step.net(x), y) * (float("nan") if self.explode else 1)


def test_memory_first():
    learner = small(MemoryOnly(), memory=6)
    x, y = blobs(4)
    result = learner.learn(x, y)
    assert result.rows == 3 and result.loss is not None and len(learner.memory) == 4
    learner.learn(*blobs(4, seed=1))
    assert learner.memory.seen == 8


def test_accuracy_of_incoming_rows_that_were_not_trained_on():
    learner = small(MemoryOnly(), memory=6)
    for seed in range(6):
        x, y = blobs(5, classes=2, seed=seed)
        labels = ["ab"[value] for value in y]
        known = learner.labels
        guess = learner.predict(x) if known else []
        expected = np.mean([g == t for g, t in zip(guess, labels, strict=True)]) if known else 0
        assert learner.learn(x, labels).accuracy == pytest.approx(expected)


def test_memory_first_is_undone():
    learner = feed(small(MemoryOnly(), "mlp", memory=6, momentum=0.9), class_stream()[:4])
    learner.method.explode = True
    x, _ = blobs(4)
    refused(learner, lambda: learner.learn(x, ["new", "class 0", "x", "y"]), NonFiniteLoss)
    learner.method.explode = False
    twin = feed(small(MemoryOnly(), "mlp", memory=6, momentum=0.9), class_stream()[:4])
    assert learner.learn(x, ["a"] * 4) == twin.learn(x, ["a"] * 4)
    assert learner.fingerprint() == twin.fingerprint()


def test_a_method_that_trains_from_memory_needs_one():
    with pytest.raises(InputError, match="memory=0"):
        small(MemoryOnly(), memory=0)


# ---- groups of parameters ------------------------------------------------------------------------


@named
@dataclass
class TwoSteps(ER):
    """A second step on the head, which can fail."""

    second: str = "head"
    explode: bool = False

    def after_step(self, step):
        x, y = step.joint()
        loss = F.cross_entropy(step.net(x), y)
        step.optimise(loss, self.second)
        step.optimise(loss.detach() * 0 + F.cross_entropy(step.net(x), y), self.second)
        if self.explode:
            step.optimise(loss * float("nan"), self.second)


def test_the_head_alone_is_trained():
    """With momentum too, which must not carry the rest of the network along."""
    for options in OPTIMIZERS:
        plain = small(TwoSteps(), Noisy(), memory=0, **options)
        x, y = blobs(6)
        plain.learn(x, y)
        hook, calls = plain.method.after_step, []

        def spied(step, hook=hook, calls=calls, learner=plain):
            calls.append(parameters(learner))
            hook(step)
            calls.append(parameters(learner))

        plain.method.after_step = spied
        plain.learn(x, y)
        before, after = calls
        changed = {n for n in before if not torch.equal(before[n], after[n])}
        assert {n for n in changed if "running" not in n and "tracked" not in n} == {
            "head.weight",
            "head.bias",
        }


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
@pytest.mark.parametrize("second", ["head", "network"])
@pytest.mark.parametrize("labels", [["class 0"] * 4, ["new", "class 0", "newer", "class 1"]])
def test_a_failure_after_the_main_update_undoes_it(options, second, labels):
    stream = class_stream(8)
    learner = feed(small(TwoSteps(second), Noisy(), **options), stream[:4])
    twin = feed(small(TwoSteps(second), Noisy(), **options), stream[:4])
    learner.method.explode = True
    refused(learner, lambda: learner.learn(stream[4][0], labels), NonFiniteLoss)
    refused(learner, lambda: learner.learn(stream[4][0], labels), NonFiniteLoss)
    learner.method.explode = False
    # `explode` is in the spec, hence in the fingerprint: equal again now
    assert feed(learner, stream[4:]).fingerprint() == feed(twin, stream[4:]).fingerprint()


def test_a_failure_in_the_first_step_undoes_the_users_module():
    module = Noisy()
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    learner = small(TwoSteps(explode=True), module, optimizer="adam")
    refused(learner, lambda: learner.learn(*blobs(4)), NonFiniteLoss)
    assert same(dict(module.state_dict()), weights)
    assert learner.network is None


@named
@dataclass
class InnerStep(ER):
    """Steps on the network inside `loss`, then may fail in the main loss."""

    explode: bool = False

    def loss(self, step):
        x, y = step.joint()
        step.optimise(F.cross_entropy(step.net(x), y))
        return super().loss(step) * (float("nan") if self.explode else 1)


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_a_step_inside_the_loss_is_undone(options):
    learner = feed(small(InnerStep(), Noisy(), **options), class_stream()[:4])
    learner.method.explode = True
    refused(learner, lambda: learner.learn(*blobs(4)), NonFiniteLoss)


@named
@dataclass
class FailingStore(ER):
    explode: bool = False

    def stored_rows(self, step):
        if self.explode:
            raise InputError("changed my mind")


class FailingUpdate(Update):
    explode = False

    def place(self, step, rows):
        slots, chosen = reservoir_slots(step.memory, len(rows), step.randomness.reservoir)
        if self.explode:
            raise InputError("no room")
        return Placement(slots, chosen)


@named
@dataclass
class OwnUpdate(ER):
    def make_update(self):
        return FailingUpdate()


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_a_failure_while_storing_undoes_the_update(options):
    learner = feed(small(FailingStore(), Noisy(), **options), class_stream()[:4])
    learner.method.explode = True
    refused(learner, lambda: learner.learn(*blobs(4)), InputError, "changed my mind")
    learner = feed(small(OwnUpdate(), Noisy(), **options), class_stream()[:4])
    learner.method.update.explode = True
    refused(learner, lambda: learner.learn(*blobs(4)), InputError, "no room")


def test_an_unknown_group_is_named():
    learner = feed(small(TwoSteps()), [])
    learner.method.second = "haed"
    with pytest.raises(UnknownName, match=r"unknown group 'haed'.*head"):
        learner.learn(*blobs(4))


# ---- state of its own ----------------------------------------------------------------------------


@named
@dataclass
class Everything(Method):
    """Own module (with BatchNorm), own optimiser, tensors, generator, stored logits, two groups."""

    trained_groups = ("network", "adaptor")
    logits_follow_criterion = False
    explode: bool = False

    def on_setup(self, learner):
        width = learner.network.head.in_features
        adaptor = nn.Sequential(nn.Linear(width, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.modules["adaptor"] = adaptor
        self.optimizers["adaptor"] = torch.optim.Adam(adaptor.parameters(), lr=0.01)
        self.tensors["steps"] = torch.zeros((), dtype=torch.int64)

    def training_rows(self, step):
        step.notes["replayed"] = step.retrieve()
        return [step.incoming]

    def loss(self, step):
        features, logits = step.forward(step.incoming.x)
        step.remember(logits=logits)
        loss = step.ce(logits, step.incoming.y)
        replayed = step.notes["replayed"]
        if len(replayed):
            stored = replayed.fields["logits"]
            loss = loss + 0.1 * F.mse_loss(step.net(replayed.x)[:, : stored.shape[1]], stored)
        noise = torch.rand(1, generator=step.randomness.method)
        return loss + 0.1 * (self.modules["adaptor"](features) - noise).pow(2).mean()

    def after_step(self, step):
        self.tensors["steps"] = self.tensors["steps"] + 1
        out = self.modules["adaptor"](step.forward(step.incoming.x)[0])
        step.optimise(out.pow(2).mean(), "adaptor")
        if self.explode:
            step.optimise(out.mean() * float("nan"), "adaptor")


def own_state(method):
    return {
        **{f"module {k}": v.clone() for k, v in method.modules["adaptor"].state_dict().items()},
        "steps": method.tensors["steps"],
    }


def test_own_state_is_trained_saved_and_restored(tmp_path):
    stream = class_stream(10, classes=6)
    options = {"model": "mlp", "memory": 6}
    torch.manual_seed(1)
    whole = feed(small(Everything(), **options), stream)
    torch.manual_seed(2)  # the adaptor's weights must not depend on the outside
    part = feed(small(Everything(), **options), stream[:6])
    initial = small(Everything(), **options)
    initial.learn(*stream[0])
    assert not same(own_state(initial.method), own_state(part.method))
    part.save(tmp_path)
    torch.manual_seed(3)
    outside = torch.get_rng_state()
    loaded = Learner.load(tmp_path, method=Everything())
    assert torch.equal(torch.get_rng_state(), outside)
    assert loaded.fingerprint() == part.fingerprint()
    assert same(own_state(loaded.method), own_state(part.method))
    feed(loaded, stream[6:])
    assert loaded.fingerprint() == whole.fingerprint()
    assert loaded.method.tensors["steps"].item() == 10


def test_own_state_of_a_copy_is_its_own():
    stream = class_stream(10)
    first = feed(small(Everything()), stream[:5])
    twin = Learner.from_state(first.state(), method=Everything())
    before = twin.fingerprint()
    feed(first, stream[5:])
    assert twin.fingerprint() == before
    assert feed(twin, stream[5:]).fingerprint() == first.fingerprint()


@pytest.mark.parametrize("options", OPTIMIZERS, ids=NAMES)
def test_own_state_is_undone(options):
    stream = class_stream(8)
    learner = feed(small(Everything(), Noisy(), memory=5, **options), stream[:4])
    twin = feed(small(Everything(), Noisy(), memory=5, **options), stream[:4])
    learner.method.explode = True
    before = own_state(learner.method)
    refused(learner, lambda: learner.learn(blobs(4)[0], ["new", "class 0", "x", "x"]))
    assert same(own_state(learner.method), before)
    learner.method.explode = False
    assert feed(learner, stream[4:]).fingerprint() == feed(twin, stream[4:]).fingerprint()
    fresh = small(Everything(explode=True), Noisy())
    refused(fresh, lambda: fresh.learn(*blobs(4)), NonFiniteLoss)
    assert fresh.method.modules == {} and fresh.method.tensors == {}


def test_stored_logits_widen_with_the_head():
    learner = small(Everything(), memory=20)
    x, _ = blobs(3)
    learner.learn(x, ["a", "b", "a"])
    first = learner.memory.field("logits").clone()
    learner.learn(x, ["c", "d", "a"])
    stored = learner.memory.field("logits")
    assert first.shape == (3, 2) and stored.shape == (6, 4)
    assert torch.equal(stored[:3, :2], first) and (stored[:3, 2:] == 0).all()


def test_logits_shaped_by_another_loss_take_no_priors():
    method = Everything()
    method.adjustment = LogitAdjustment()
    learner = feed(small(method), class_stream()[:3])
    with pytest.raises(InputError, match="another loss"):
        learner.predict(blobs(2)[0], {"class 0": 1.0})


@named
@dataclass
class Teacher(ER):
    """Copies the network at task ends and stays close to it."""

    needs = frozenset({"boundaries"})

    def loss(self, step):
        loss = super().loss(step)
        if "teacher" in self.modules:
            x = step.incoming.x
            with torch.no_grad():
                old = self.modules["teacher"](x)
            loss = loss + F.mse_loss(step.net(x)[:, : old.shape[1]], old)
        return loss

    def on_task_end(self, learner, data):
        self.modules["teacher"] = learner.copy_network()


@pytest.mark.parametrize("options", [{}, {"head_size": 8}], ids=["growing", "preallocated"])
def test_a_teacher_comes_back_as_it_was(tmp_path, options):
    stream = class_stream(9, classes=6)

    def drive(learner, start, stop):
        for index in range(start, stop):
            if index % 3 == 0:
                if learner.in_task:
                    learner.end_task()
                learner.start_task()
            learner.learn(*stream[index])
        return learner

    whole = drive(small(Teacher(), Noisy(), **options), 0, 9)
    part = drive(small(Teacher(), Noisy(), **options), 0, 5)  # new classes since the copy
    part.save(tmp_path)
    loaded = Learner.load(tmp_path, Noisy(), method=Teacher())
    assert loaded.fingerprint() == part.fingerprint()
    x = torch.from_numpy(stream[0][0])
    for learner in (part, loaded):
        teacher = learner.method.modules["teacher"]
        assert teacher(x).shape == (4, 2) and not teacher.training
        assert not any(p.requires_grad for p in teacher.parameters())
    assert drive(loaded, 5, 9).fingerprint() == whole.fingerprint()


def test_a_teacher_is_not_trained():
    learner = small(Teacher())
    learner.start_task()
    feed(learner, class_stream()[:3])
    learner.end_task()
    before = {k: v.clone() for k, v in learner.method.modules["teacher"].state_dict().items()}
    assert same(before, parameters(learner))
    learner.start_task()
    feed(learner, class_stream()[3:9])
    assert same(before, dict(learner.method.modules["teacher"].state_dict()))
    assert not same({"w": before["head.weight"]}, {"w": learner.network.head.weight[:2]})


# ---- tasks ---------------------------------------------------------------------------------------


def test_boundaries_that_a_method_needs():
    learner = small(Teacher(), accumulate=3)
    x, y = blobs(2)
    refused(learner, lambda: learner.learn(x, y), InputError, "start_task")
    learner.start_task()
    learner.learn(x, y)
    learner.end_task()
    refused(learner, learner.flush, InputError, "start_task")


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
            learner.optimise(F.cross_entropy(learner.network(x), y), group)
        assert len(learner.undo) <= 2  # a long fine-tuning does not pile up copies
        learner.memory.clear()
        learner.memory.put(torch.arange(2), {X: x[:2], Y: y[:2]})
        if self.fail == "end":
            learner.optimise(F.cross_entropy(learner.network(x), y) * float("nan"))


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


# ---- slots ---------------------------------------------------------------------------------------


class Hardest(Retrieval):
    """Scores twice as many candidates and hands on the views it scored."""

    def pick(self, step, count):
        candidates = Uniform().pick(step, 2 * count)
        if not len(candidates):
            return candidates
        with torch.no_grad():
            losses = F.cross_entropy(step.net(candidates.x), candidates.y, reduction="none")
        self.scored = candidates.x
        self.order = losses.argsort(descending=True)[:count]
        return candidates.take(self.order)


@named
@dataclass
class Picky(ER):
    def make_retrieval(self):
        return Hardest()

    def loss(self, step):
        self.trained, _ = step.joint()
        return super().loss(step)


def test_retrieval_hands_on_the_views_it_scored():
    learner = small(Picky(), "mlp", augment="crop1+flip", memory=8, replay_batch=2)
    for seed in range(4):
        result = learner.learn(images(3, seed=seed), [0, 1, 2])
    method = learner.method
    assert result.rows == 5 and len(method.retrieval.scored) == 4
    assert torch.equal(method.trained[3:], method.retrieval.scored[method.retrieval.order])


class Ring(Update):
    """First in, first out, with the step at which a row came."""

    def place(self, step, rows):
        memory = step.memory
        slots = torch.arange(memory.seen, memory.seen + len(rows)) % memory.capacity
        memory.seen += len(rows)
        return Placement(slots, torch.arange(len(rows)), {"loss": rows.y.float() + 0.5})


@named
@dataclass
class FirstInFirstOut(ER):
    def make_update(self):
        return Ring()


def test_an_update_rule_places_rows_and_fields():
    learner = small(FirstInFirstOut(), memory=4)
    x, _ = blobs(6)
    learner.learn(x[:3], ["a", "b", "c"])
    learner.learn(x[3:], ["a", "b", "b"])
    expected = torch.from_numpy(x[[4, 5, 2, 3]])
    assert torch.equal(learner.memory.field(X), expected)
    assert learner.memory.field("loss").tolist() == [1.5, 1.5, 2.5, 0.5]
    assert learner.memory.class_counts.tolist() == [1, 2, 1]


class NearestMean(InferenceRule):
    """Nearest class mean over the memory; counts how often it prepares."""

    prepared = 0

    def prepare(self, model):
        NearestMean.prepared += 1
        features = model.network.features(model.preprocess.plain(model.memory.field(X)))
        labels = model.memory.field(Y)
        return torch.stack([features[labels == c].mean(0) for c in labels.unique()])

    def scores(self, outputs, prepared):
        assert outputs.x.shape[0] == outputs.features.shape[0] == outputs.logits.shape[0]
        return -torch.cdist(outputs.features, prepared)


@named
@dataclass
class ByMeans(ER):
    def make_inference(self):
        return NearestMean()


def test_an_inference_rule_prepares_once_and_changes_nothing(monkeypatch):
    monkeypatch.setattr("evenstream.learner.outputs.PREDICT_BATCH", 4)
    learner = small(ByMeans(), nn.Flatten(), memory=100)
    x, y = blobs(30, classes=3)
    learner.learn(x, y)
    before, NearestMean.prepared = learner.fingerprint(), 0
    predicted = learner.predict(x)
    assert NearestMean.prepared == 1 and learner.fingerprint() == before
    means = {c: x[np.array(y) == c].mean(0) for c in set(y)}
    expected = [min(means, key=lambda c: np.linalg.norm(row - means[c])) for row in x]
    assert predicted == expected
    # and the accuracy of a step is that of the rule
    assert learner.learn(x, expected).accuracy == 1.0


# ---- -las ----------------------------------------------------------------------------------------


@dataclass
class Weighted(Method):
    """A method with two cross-entropy terms that knows nothing of adjustment."""

    def loss(self, step):
        incoming = step.ce(step.net(step.incoming.x), step.incoming.y)
        replayed = step.groups[1]
        if not len(replayed):
            return incoming
        rows = step.ce(step.net(replayed.x), replayed.y, "none")
        return incoming + rows.mean()


def test_las_swaps_the_criterion_of_any_method():
    register("weighted")(Weighted)
    stream = class_stream()
    plain, zero, one = (
        feed(small(make_method(name), memory=8), stream)
        for name in ("weighted", "weighted-las:tau=0", "weighted-las")
    )
    assert same(parameters(plain), parameters(zero))
    assert not same(parameters(plain), parameters(one))
    counts = one.criterion.prior.weights()  # both terms' rows, observed once
    assert counts.sum().item() == 4 + 4


def test_a_label_that_was_not_declared_is_an_error_not_an_infinite_loss():
    @dataclass
    class Sly(ER):
        """Scores replayed rows that it did not declare as training rows."""

        def training_rows(self, step):
            step.notes["hidden"] = step.retrieve()
            return [step.incoming]

        def loss(self, step):
            hidden = step.notes["hidden"]
            loss = super().loss(step)
            return loss + step.ce(step.net(hidden.x), hidden.y) if len(hidden) else loss

    register("sly")(Sly)
    learner = small(make_method("sly-las"))
    learner.learn(blobs(4)[0], ["a", "b", "c", "d"])
    refused(learner, lambda: learner.learn(blobs(2)[0], ["e", "f"]), InputError, "observe")


def test_step_attributes():
    seen = {}

    @named
    @dataclass
    class Look(ER):
        def loss(self, step):
            seen.update(
                batch=step.batch, replay_batch=step.replay_batch, lr=step.lr, known=step.known
            )
            seen["views"] = [step.incoming.x is step.incoming.x, step.incoming.view().shape]
            seen["plain"] = torch.equal(step.incoming.plain(), step.incoming.raw)
            seen["slots"] = (step.incoming.slots, step.groups[1].slots.tolist())
            return super().loss(step)

    learner = small(Look(), batch=7, replay_batch=3, lr=0.25)
    learner.learn(*blobs(2))
    learner.learn(*blobs(2))
    assert (seen["batch"], seen["replay_batch"], seen["lr"]) == (7, 3, 0.25)
    assert seen["views"] == [True, (2, DIM)] and seen["plain"]
    assert seen["slots"][0] is None and sorted(seen["slots"][1]) == [0, 1]
