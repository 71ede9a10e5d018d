"""What a step of each replay method costs, in images; and that the defaults do not move."""

import dataclasses
import inspect
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from evenstream import Frozen, Learner
from evenstream.composition import compose
from evenstream.core.heads import Linear
from evenstream.policies.criteria import LogitAdjustedSoftmax
from evenstream.policies.priors import SlidingWindow
from tests.helpers.small_streams import DIM, small


class Counted(nn.Module):
    """Notes how many rows each forward has, and whether it is one for a gradient.

    The list belongs to the class: teachers are copies of the module.
    """

    forwards: ClassVar[list[tuple[int, bool]]] = []

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layer = nn.Linear(DIM, 3)

    def forward(self, x):
        self.forwards.append((len(x), torch.is_grad_enabled()))
        return self.layer(x)


ACCURACY = [(4, False)]
"""The accuracy of the incoming rows, where no other forward has their logits."""
B, M = 4, 3


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("fine-tune", [(B, True)]),
        ("er", [(B + M, True)]),
        ("er:forwards=separate", [(B, True), (M, True)]),
        ("pcr:forwards=separate", [(2 * B, True), (2 * M, True)]),
        ("er-cbl", [(B + M, True)]),
        ("er-wn", [(B + M, True), *ACCURACY]),
        ("er-posthoc", [(B + M, True), *ACCURACY]),
        ("der++", [(B, True), (M, True), (M, True)]),
        ("mro", [(B + M, True), *ACCURACY]),
        ("ss-il:refresh=1", [(B + M, True), (B + M, False)]),
        ("clib:period=1", [(B + M, True), *ACCURACY, (12, False)]),
        ("clib:period=3", [(B + M, True), *ACCURACY]),
        ("er-ace", [(B, True), (M, True)]),
        ("er-obc", [(B + M, True), (M, False)]),
        # the outer step comes first, on the same batches and a third draw
        ("er-cba:period=1", [(B, False), (M, False), (M, False), (B, True), (M, True)]),
        ("er-cba:period=3", [(B, True), (M, True)]),
        ("mir:subsample=8", [(B, True), (8, False), (8, False), (B + M, True)]),
        # all twelve slots are candidates and judges: each is looked at once
        ("aser:per_class=12", [(12, False), (B, False), (B + M, True), (12, False), (B, False)]),
        ("ocs", [(B, False), (M, False), (B // 2 + M, True)]),
        ("er-up", [(B + 2 * 2, True)]),  # two rows of each of the two absent classes
        ("er-down", [(1 + 1 + M, True), *ACCURACY]),  # one row of each of the two present classes
    ],
)
def test_forwards_of_a_step(spec, expected):
    """The second step of a learner whose memory of twelve is full, with two of four classes."""
    learner = small(spec, Counted(), memory=12, batch=B, replay_batch=M)
    x = np.random.default_rng(0).normal(size=(40, DIM)).astype(np.float32)
    learner.learn(x, [0, 1, 2, 3] * 10)
    if learner.method.uses_memory:
        assert len(learner.memory) == 12
    Counted.forwards.clear()
    learner.learn(x[:B], [2, 3, 2, 3])
    assert Counted.forwards == expected


H = 3 * 4 / (3 * 4 + 3 * DIM)
"""The head's share of the work: four classes on three features, which have a layer of their own."""


@pytest.mark.parametrize(
    ("spec", "passes", "aside"),
    [
        ("fine-tune", 3 * B, 0),
        ("er", 3 * (B + M), 0),
        ("er-las@ema", 3 * (B + M), B),
        ("er-las@ema:mix=0.5", 3 * (B + M), 2 * B),
        ("der++", 3 * (B + 2 * M), 0),
        ("clib:period=1", 3 * (B + M) + 12, B),
        ("ss-il:refresh=1", 4 * (B + M), 0),
        ("er-obc", 3 * (B + M) + M * (1 + 2 * H), 0),
        # the virtual step, both looks at the candidates, and the step
        ("mir:subsample=8", 3 * B + 2 * 8 + 3 * (B + M), 0),
        ("ocs:gradients=full", 3 * (B + M) + 3 * (B // 2 + M), 0),
        ("ocs", B + M + 3 * (B // 2 + M), 0),
        ("aser:per_class=12", 2 * (12 + B) * (1 - H) + 3 * (B + M), 0),
    ],
)
def test_image_passes_of_a_step(spec, passes, aside):
    learner = small(spec, Counted(), memory=12, batch=B, replay_batch=M)
    x = np.random.default_rng(0).normal(size=(40, DIM)).astype(np.float32)
    learner.learn(x, [0, 1, 2, 3] * 10)
    before = learner.passes.count, learner.passes.aside
    learner.learn(x[:B], [2, 3, 2, 3])
    assert learner.passes.count - before[0] == pytest.approx(passes)
    assert learner.passes.aside - before[1] == pytest.approx(aside)


def test_a_frozen_backbone_has_no_backward():
    learner = small("fine-tune", Counted().requires_grad_(False), memory=0, head_size=4)
    learner.learn(np.zeros((5, DIM), np.float32), [0, 1, 2, 3, 0])
    assert learner.passes.count == pytest.approx(5 * (1 + 2 * H))


def test_a_frozen_part_in_front_counts_its_forward_once_for_each_arriving_row():
    encoder = nn.Linear(DIM, 8)
    learner = Learner(
        "er", Frozen(encoder, then="identity"), memory=6, replay_batch=6, dtype="float32"
    )
    x = np.random.default_rng(0).normal(size=(6, DIM)).astype(np.float32)
    learner.learn(x, [0, 1] * 3)
    front, head = 8 * DIM, 8 * 2
    passes = 6 * front + 3 * 6 * head
    assert learner.passes.count == pytest.approx(passes / (front + head))
    learner.learn(x, [0, 1] * 3)
    passes += 6 * front + 3 * 12 * head  # the stored rows are features already
    assert learner.passes.count == pytest.approx(passes / (front + head))


@pytest.mark.parametrize(("mode", "factor"), [("micro", 1), ("repeat", 3)])
def test_image_passes_of_several_steps(mode, factor):
    learner = small("er", memory=12, batch=6, replay_batch=6, steps=3, step_rows=mode)
    x = np.random.default_rng(0).normal(size=(12, DIM)).astype(np.float32)
    learner.learn(x, [0, 1] * 6)
    before = learner.passes.count
    learner.learn(x[:6], [0, 1] * 3)
    assert learner.passes.count - before == pytest.approx(factor * 3 * 12)


DEFAULTS = {
    "er": {"reduction": "mean", "forwards": "joint"},
    "der++": {"alpha": 0.1, "beta": 0.5, "distance": "mean"},
    "mro": {"rows": 0, "update_first": False},
    "ss-il": {"refresh": 100, "temperature": 2.0, "groups": "batch", "replayed": "own-group"},
    "clib": {"rows": 0, "period": 3, "keep": 0.9, "ties": "slot"},
    "er-ace": {"mask": "strict"},
    "er-obc": {
        "correction_batch": 0,
        "correction_weight": 1.0,
        "correction_draw": "uniform",
        "correction_mode": "train",
        "surrogate_head": False,
    },
    "er-cba": {"adaptor_lr": 0.001, "period": 5, "hidden": 256, "start": "old-class"},
    "mir": {
        "subsample": 0,
        "scoring": "train",
        "exclude_current": False,
        "update_at_task_end": False,
    },
    "aser": {"neighbours": 5, "per_class": 6, "friends": "any"},
    "ocs": {"keep": 0.5, "affinity": 1000.0, "gradients": "head", "selects": "both"},
    "er-cbl": {"beta": 0.9999, "form": "softmax", "gamma": 0.5},
    "er-wn": {"power": 1.0, "keep_bias": False, "when": "test"},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_stay(name):
    """A number in a report carries only what is not default, so defaults must not move."""
    composition = compose(name)
    assert dataclasses.asdict(composition.method) == DEFAULTS[name]
    assert isinstance(composition.head, Linear)


def test_defaults_of_the_loop_are_the_papers():
    options = inspect.signature(Learner).parameters
    chosen = Learner("er", "mlp").options
    assert {
        name: getattr(chosen, name)
        for name in ("lr", "batch", "replay_batch", "optimizer", "momentum", "weight_decay")
    } == {
        "lr": 0.03,
        "batch": 32,
        "replay_batch": 32,
        "optimizer": "sgd",
        "momentum": 0.0,
        "weight_decay": 0.0,
    }
    assert options["scope"].default == "seen"
    las = LogitAdjustedSoftmax()
    assert compose("er-las").criterion.tau == las.tau == 1.0
    assert isinstance(las.prior, SlidingWindow) and las.prior.window == 1
