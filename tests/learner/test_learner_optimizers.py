"""Optimisers made by the user's own function, with groups, rates and schedulers."""

import sys
import tempfile
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, Adafactor, AdamW
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)

from evenstream import Learner, testing
from evenstream.core.optimizers import OPTIMIZERS, every, register_optimizer
from evenstream.errors import CheckpointError, InputError, LearningWarning
from evenstream.methods import ER
from tests.helpers import warm
from tests.helpers.small_streams import Bomb, Noisy, class_stream, feed, parameters, same, small


def one_rate(groups):
    """What `optimizer="sgd"` means."""
    return SGD([p for group in groups.values() for p in group], 0.03)


def two_rates(groups):
    head = groups["head"] + groups["method"]
    return AdamW([{"params": groups["backbone"], "lr": 1e-4}, {"params": head, "lr": 1e-2}])


def warm_up(groups):
    optimizer = two_rates(groups)
    if groups["method"]:
        return optimizer
    first = LinearLR(optimizer, 0.1, total_iters=3)
    return optimizer, SequentialLR(optimizer, [first, MultiStepLR(optimizer, [2, 4])], [3])


def cosine(groups):
    if groups["method"]:
        return SGD(groups["method"], 0.1)
    optimizer = SGD([{"params": groups["head"]}, {"params": groups["backbone"]}], 0.1, momentum=0.9)
    return optimizer, CosineAnnealingLR(optimizer, 7)


FACTORIES = [one_rate, two_rates, warm_up, cosine]


def rates(learner):
    return [group["lr"] for group in learner.optimizer.param_groups]


def test_a_function_can_do_what_a_name_does():
    learners = [small("er-las", lr=0.03, optimizer=made) for made in ("sgd", one_rate)]
    for learner in learners:
        feed(learner, class_stream(12))
    assert same(parameters(learners[0]), parameters(learners[1]))
    assert learners[1].lr == 0.03


def test_groups_have_their_own_rates():
    learner = feed(small("er", optimizer=two_rates), class_stream(6))
    backbone, head = (group["params"] for group in learner.optimizer.param_groups)
    assert {id(p) for p in head} == {id(p) for p in learner.network.head.parameters()}
    assert {id(p) for p in backbone} == {id(p) for p in learner.network.backbone.parameters()}
    assert rates(learner) == [1e-4, 1e-2]
    with pytest.raises(InputError, match="different rates"):
        _ = learner.lr
    with pytest.raises(InputError, match="made by a function"):
        learner.lr = 0.1


def test_the_rate_is_the_one_that_a_step_is_made_with():
    learner = small("er", optimizer=cosine)
    with pytest.raises(InputError, match="first batch"):
        _ = learner.lr
    expected, seen = CosineAnnealingLR(SGD([nn.Parameter(torch.zeros(1))], 0.1), 7), []
    for x, labels in class_stream(8):
        learner.learn(x, labels)
        expected.optimizer.step()
        expected.step()
        seen.append(expected.get_last_lr()[0])
        assert learner.lr == seen[-1]
    assert min(seen) < 1e-9 and len(set(seen)) > 6


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("method", ["er-las", "scr", "er-obc:surrogate_head=true"])
def test_saved_and_resumed_is_uninterrupted(factory, method, tmp_path):
    stream = class_stream(12)
    whole = feed(small(method, optimizer=factory), stream)
    feed(small(method, optimizer=factory), stream[:5]).save(tmp_path)
    resumed = feed(Learner.load(tmp_path, optimizer=factory), stream[5:])
    assert resumed.fingerprint() == whole.fingerprint() and rates(resumed) == rates(whole)


def ends(groups):
    """Its schedule is over after three steps."""
    optimizer = SGD([p for group in groups.values() for p in group], np.float32(0.1))
    return optimizer, OneCycleLR(optimizer, 0.1, total_steps=3, cycle_momentum=False)


class Breaks(SGD):
    """Changes weights and fails."""

    steps = 0

    def step(self, closure=None):
        super().step()
        self.steps += 1
        self.param_groups[0]["counted"] = self.steps
        if self.steps > 3:
            raise RuntimeError("no more")


def breaks(groups):
    return Breaks([p for group in groups.values() for p in group], 0.1, momentum=0.9)


@pytest.mark.parametrize("factory", [ends, breaks])
def test_an_optimizer_or_a_scheduler_that_fails_leaves_no_trace(factory):
    stream = class_stream(6)
    learner = small("er-las", optimizer=factory)
    made = 0
    while made < 4:
        before, (x, labels) = learner.fingerprint(), stream[made]
        try:
            learner.learn(x, labels)
            made += 1
        except InputError as error:
            assert "fails: " in str(error)
            break
    assert 2 <= made <= 3
    for x, labels in stream[made:]:
        with pytest.raises(InputError, match="fails: "):
            learner.learn(x, labels)
        assert learner.fingerprint() == before and learner.step == made


def numpys(groups):
    """Rates and factors that JSON does not know."""
    optimizer = SGD([p for group in groups.values() for p in group], Fraction(1, 10))
    if groups["method"]:
        return optimizer
    return optimizer, LinearLR(optimizer, np.float32(0.5), total_iters=np.int64(4))


def tensors(groups):
    optimizer = AdamW([p for group in groups.values() for p in group], torch.tensor(0.01))
    return optimizer if groups["method"] else (optimizer, MultiStepLR(optimizer, [2, 4], 0.5))


@pytest.mark.parametrize("factory", [numpys, tensors])
def test_rates_of_any_kind_can_be_saved_and_undone(factory, tmp_path):
    stream, bomb = class_stream(8), Bomb()
    whole = feed(small("er-las", bomb, optimizer=factory), stream[:5])
    before = whole.fingerprint()
    bomb.armed = True
    with pytest.raises(FloatingPointError):
        whole.learn(*stream[5])
    bomb.armed = False
    assert whole.fingerprint() == before
    whole.save(tmp_path)
    resumed = feed(Learner.load(tmp_path, Bomb(), optimizer=factory), stream[5:])
    assert resumed.fingerprint() == feed(whole, stream[5:]).fingerprint()
    assert all(type(rate) is float for rate in rates(resumed))


def low_rank(groups):
    return Adafactor([p for group in groups.values() for p in group], lr=0.01)


def test_state_of_another_shape_than_its_weight(tmp_path):
    stream = class_stream(8)
    whole = feed(small("er-las", optimizer=low_rank, head_size=10), stream)
    feed(small("er-las", optimizer=low_rank, head_size=10), stream[:4]).save(tmp_path)
    resumed = feed(Learner.load(tmp_path, optimizer=low_rank), stream[4:])
    assert resumed.fingerprint() == whole.fingerprint()
    with pytest.raises(InputError, match="cannot grow with the head"):
        feed(small("er-las", optimizer=low_rank), stream)


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_refused_step_leaves_rates_and_schedule_alone(factory):
    bomb = Bomb()
    learner = feed(small("er", bomb, optimizer=factory), class_stream(4))
    before, had = learner.fingerprint(), rates(learner)
    bomb.armed = True
    with pytest.raises(FloatingPointError):
        learner.learn(*class_stream(5)[4])
    assert learner.fingerprint() == before and rates(learner) == had


def test_a_refused_end_of_a_task_undoes_the_scheduler():
    class Fails(ER):
        def on_task_end(self, learner, data):
            raise InputError("no")

    learner = small(Fails(), optimizer=cosine, accumulate=12)
    learner.start_task()
    learner.learn(*class_stream(1)[0])
    x, labels = class_stream(2)[1]
    learner.learn(x[:3], labels[:3])
    before, had = learner.fingerprint(), rates(learner)
    with pytest.raises(InputError, match="no"):
        learner.end_task()
    assert learner.fingerprint() == before and rates(learner) == had


def test_a_saved_function_must_be_given_again(tmp_path):
    feed(small("er", optimizer=two_rates), class_stream(2)).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"optimizer=.*two_rates.*load\(path, optimizer="):
        Learner.load(tmp_path)
    with pytest.raises(CheckpointError, match=r"two_rates, not with .*cosine"):
        Learner.load(tmp_path, optimizer=cosine)
    assert rates(Learner.load(tmp_path, optimizer=two_rates)) == [1e-4, 1e-2]


def with_rate(groups, lr):
    return SGD([p for group in groups.values() for p in group], lr)


def test_arguments_of_a_partial_function_are_compared(tmp_path):
    feed(small("er", optimizer=partial(with_rate, lr=0.2)), class_stream(2)).save(tmp_path)
    for other in (partial(with_rate, lr=0.3), partial(one_rate), with_rate):
        with pytest.raises(CheckpointError, match=r"lr=0\.2"):
            Learner.load(tmp_path, optimizer=other)
    assert Learner.load(tmp_path, optimizer=partial(with_rate, lr=0.2)).lr == 0.2


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda groups: 3, "must return a torch optimizer"),
        (lambda groups: groups["tail"], "fails: KeyError"),
        (lambda groups: (o := one_rate(groups), ReduceLROnPlateau(o)), "ReduceLROnPlateau"),
        (lambda groups: (one_rate(groups), LinearLR(one_rate(groups))), "belong to the optimizer"),
        (lambda groups: LBFGS(groups["head"]), "LBFGS cannot make the steps"),
        (lambda groups: SGD(groups["head"], 1e300), "lr is 1e[+]300"),
        (lambda groups: SGD([{"params": groups["head"], "own": object()}], 0.1), "own is <object"),
    ],
)
def test_functions_that_make_none(factory, message):
    learner = small("er", optimizer=factory)
    before = learner.fingerprint()
    with pytest.raises(InputError, match=message):
        learner.learn(*class_stream(1)[0])
    assert learner.fingerprint() == before


def test_a_name_of_ones_own():
    with OPTIMIZERS.temporary():

        @register_optimizer("half-head")
        def half_head(groups, *, lr, momentum, weight_decay):
            head = groups["head"] + groups["method"]
            return SGD([{"params": groups["backbone"], "lr": lr}, {"params": head, "lr": lr / 2}])

        learner = feed(small("er", optimizer="half-head", lr=0.1), class_stream(3))
        assert rates(learner) == [0.1, 0.05]
        learner.lr = 0.01
        assert rates(learner) == [0.01, 0.005] and learner.lr == 0.01
        learner.lr = 0.0
        resumed = Learner.from_bytes(learner.to_bytes())
        resumed.lr = 0.2
        assert rates(resumed) == [0.2, 0.1] and resumed.lr == 0.2


def test_before_the_first_batch_a_rate_that_is_not_known_is_not_told():
    with OPTIMIZERS.temporary():

        @register_optimizer("warm")
        def warm(groups, *, lr, momentum, weight_decay):
            optimizer = SGD([p for group in groups.values() for p in group], lr)
            return optimizer, LinearLR(optimizer, 0.1, total_iters=5)

        learner = small("er", optimizer="warm", lr=0.1)
        for unknown in (learner, Learner(), Learner(optimizer="warm")):
            with pytest.raises(InputError, match="with the first batch"):
                _ = unknown.lr
        feed(learner, class_stream(1))
        assert learner.lr == rates(learner)[0] == pytest.approx(0.028)
        with pytest.raises(InputError, match="a scheduler sets them"):
            learner.lr = 0.5


def test_a_rate_set_before_the_first_batch_is_not_chosen_anew():
    learner = Learner()
    assert "chosen with the first batch (batch, lr," in str(learner)
    learner.lr = 0.2
    resumed = Learner.from_bytes(learner.to_bytes())
    for each in (learner, resumed):
        assert each.lr == 0.2
        each.learn(np.ones((4, 3)), [0, 1] * 2)
        assert each.lr == 0.2 and each.options.optimizer == "adamw"


def test_reset_forgets_moments():
    learner = feed(small("er", Noisy(), optimizer="adam", lr=0.01), class_stream(3))
    weights = parameters(learner)
    assert learner.optimizer.state
    learner.reset_optimizer()
    assert not learner.optimizer.state and same(parameters(learner), weights)
    assert learner.lr == 0.01


@pytest.mark.parametrize(
    ("method", "name", "reset"),
    [
        ("er-obc:surrogate_head=true", "surrogate", True),
        ("scr", "projection", True),
        ("er-cba", "adaptor", False),  # an optimiser of its own choice, as in the public code
    ],
)
def test_reset_includes_what_the_methods_loss_trains(method, name, reset, tmp_path):
    learner = feed(small(method, optimizer="adam", lr=0.01), class_stream(12))
    before = learner.parts[0].optimizers[name]
    weights = parameters(learner)
    assert before.state
    learner.reset_optimizer()
    after = learner.parts[0].optimizers[name]
    assert (after is not before, not after.state) == (reset, reset)
    assert [*map(id, every_parameter(after))] == [*map(id, every_parameter(before))]
    assert same(parameters(learner), weights)
    learner.lr = 0.02  # the new ones follow it, too
    assert not reset or after.param_groups[0]["lr"] == 0.02
    feed(learner, class_stream(3)).save(tmp_path)
    assert Learner.load(tmp_path).fingerprint() == learner.fingerprint()


def every_parameter(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def test_reset_keeps_the_settings_of_a_method():
    learner = small("ocm:beta2=0.9", optimizer="adam", lr=0.01)
    learner.start_task()
    feed(learner, class_stream(3)).reset_optimizer()
    for optimizer in (learner.optimizer, learner.parts[0].optimizers["projection"]):
        assert [group["betas"][1] for group in optimizer.param_groups] == [0.9]


def _learn_with_each():
    for name in ("sgd", "adam", "adamw", "muon"):
        learner = feed(small(optimizer=name), class_stream(2))
        with tempfile.TemporaryDirectory() as folder:
            learner.save(folder)
            feed(Learner.load(folder), class_stream(1))
    for method in ("bic", "er-cba", "pec"):
        learner = testing.make_learner(method)
        testing.feed(learner, testing.toy_stream(12))
        if learner.in_task:
            learner.end_task(testing.toy_task(learner, learner.task))
    return "torch._dynamo" in sys.modules


def test_optimisers_leave_the_compiler_alone():
    """It takes as long to load as PyTorch, and would be loaded by every command that learns."""
    ended = warm.run(_learn_with_each)
    assert ended.returncode == 0, ended.stderr.decode()


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_named_optimisers_are_those_of_pytorch(name):
    """Bit for bit."""
    kinds = {"sgd": SGD, "adam": torch.optim.Adam, "adamw": AdamW}
    kind, others = kinds[name], {"momentum": 0.9} if name == "sgd" else {"fused": True}
    ends = []
    for optimizer in (name, lambda groups: kind(every(groups), 0.05, weight_decay=0.1, **others)):
        own = {"lr": 0.05, "weight_decay": 0.1, "momentum": 0.9} if optimizer == name else {}
        ends.append(parameters(feed(small(optimizer=optimizer, **own), class_stream(6))))
    assert same(*ends)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_saves_from_before_adam_was_fused_go_on_bit_for_bit(name, tmp_path):
    stream = list(class_stream(6))
    before = feed(small(optimizer=name), stream[:1])
    for group in before.optimizer.param_groups:
        group["fused"] = None
    feed(before, stream[1:3])
    before.save(tmp_path)
    ends = [feed(learner, stream[3:]) for learner in (before, Learner.load(tmp_path))]
    assert same(*map(parameters, ends))
    assert ends[0].fingerprint() == ends[1].fingerprint()


class Turned(nn.Module):
    """A network with a complex weight."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(torch.ones(5, dtype=torch.complex64))
        self.out_features = 5

    def forward(self, x):
        return (x * self.turn).real


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_complex_weights_are_trained(name):
    learner = feed(small(model=Turned(), optimizer=name, lr=0.05), class_stream(6))
    turn = learner.network.state_dict()["backbone.turn"]
    assert bool((turn.real != 1).all())


def test_what_an_optimiser_of_ones_own_leaves_out_is_named():
    with pytest.warns(LearningWarning, match="leaves out parameters of 'head'.*requires_grad"):
        feed(small(optimizer=lambda groups: SGD(groups["backbone"], 0.1)), class_stream(1))
