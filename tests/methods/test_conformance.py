"""Every registered method, plain and adjusted, keeps every promise of `evenstream.testing`."""

from dataclasses import dataclass

import pytest
import torch

from evenstream.methods import METHODS, Method, method_names, register
from evenstream.methods.er import ER
from evenstream.testing import CHECKS, check_long_stream, check_method

ABLATIONS = [f"er-las:{option}" for option in ("tau=0", "tau=inf", "prior=random", "prior=macro")]
VARIANTS = [  # options that bring state, boundaries or another way to predict
    "der++@rescaled",
    "er-ace:head=cosine",
    "er-cba:start=second-task",
    "er@bias-corrected",
    "er-las@ema",
    "er-obc:surrogate_head=true,correction_draw=balanced",
    "er-wn:when=train",
    "ewc:tasks=separate",
    "labels-trick:columns=task",
    "lucir-full:fine_tune_epochs=2,mix=replay",
    "lwf:averaging=0.9",
    "mir:exclude_current=true,scoring=eval",
    "mro:update_first=true",
    "ocs:gradients=full",
    "pec:schedule=constant",
    "ss-il:refresh=0",
]

pytestmark = [
    pytest.mark.filterwarnings("ignore:the last 20 steps"),
    pytest.mark.filterwarnings("ignore:bic.* fits its bias correction on rows"),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", method_names() + ABLATIONS + VARIANTS)
def test_promise(method, check):
    check(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", method_names() + ABLATIONS + VARIANTS)
def test_long_stream(method):
    check_long_stream(method)


def register_for_test(monkeypatch, cls):
    monkeypatch.setattr("evenstream.methods.base.METHODS", dict(METHODS))
    return register("broken")(cls)


def test_a_class_can_be_checked_and_must_be_registered(monkeypatch):
    check_method(METHODS["fine-tune"])

    class Unregistered(Method):
        pass

    with pytest.raises(AssertionError, match="not registered"):
        check_method(Unregistered)


@dataclass
class UnsavedState(ER):
    """Counts its steps in an attribute that no checkpoint knows of."""

    def __post_init__(self):
        super().__post_init__()
        self.steps = 0

    def loss(self, step):
        self.steps += 1
        return super().loss(step) * (1 + self.steps / 1000)


@dataclass
class GlobalDraws(ER):
    """Draws from a generator of its own that it does not save."""

    generator = torch.Generator().manual_seed(0)

    def loss(self, step):
        return super().loss(step) * torch.rand((), generator=self.generator)


@dataclass
class TouchesStatistics(ER):
    """Looks at the incoming rows in train mode before it trains."""

    def training_rows(self, step):
        step.network.features(step.incoming.x)
        return super().training_rows(step)


@dataclass
class LearnsNothing(ER):
    """Returns a loss without a gradient worth the name."""

    def loss(self, step):
        return super().loss(step) * 0


@pytest.mark.parametrize(
    ("cls", "complaint"),
    [
        (UnsavedState, "goes on differently"),
        (GlobalDraws, "not reproducible"),
        (TouchesStatistics, "BatchNorm's running statistics"),
        (LearnsNothing, "of a separable stream right"),
    ],
)
def test_broken_methods_are_found_out(monkeypatch, cls, complaint):
    register_for_test(monkeypatch, cls)
    with pytest.raises(AssertionError, match=complaint):
        check_method("broken")
