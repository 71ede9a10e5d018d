"""Every registered method, plain and adjusted, keeps every promise of `evenstream.testing`."""

from dataclasses import dataclass

import pytest
import torch

from evenstream.choosing import ALIASES
from evenstream.composition import method_names
from evenstream.errors import NonFiniteLoss
from evenstream.methods import METHODS, Method, register
from evenstream.methods.er import ER
from evenstream.testing import (
    CHECKS,
    check_batchnorm_is_left_alone,
    check_boundaries,
    check_corrections,
    check_failed_task_hooks_leave_no_trace,
    check_inputs_stay,
    check_long_stream,
    check_memory_is_bounded,
    check_method,
    check_refusals_leave_no_trace,
    check_takes_any_batch,
)

ABLATIONS = [f"er-las:{option}" for option in ("tau=0", "tau=inf", "prior=random", "prior=macro")]
VARIANTS = [  # options that bring state, boundaries or another way to train or predict
    "clib:ties=oldest",
    "der++@rescaled",
    "e2e:form=bce,distilled=old,fine_tune_epochs=3",
    "er:reduction=sum-of-means,forwards=separate",
    "er-ace:head=cosine",
    "er-cba:start=second-task",
    "er@bias-corrected",
    "er-las@ema",
    "er-obc:surrogate_head=true,correction_draw=balanced",
    "er-wn:when=train",
    "ewc:tasks=separate",
    "il2m:measured=afterwards",
    "labels-trick:columns=task",
    "lucir-full:fine_tune_epochs=2,mix=replay",
    "lwf:averaging=0.9",
    "mir:exclude_current=true,scoring=eval",
    "mro:update_first=true",
    "ocs:gradients=full",
    "pcr:forwards=separate,skip_first=false",
    "pec:schedule=constant,teacher_width=5",
    "ss-il:refresh=0,replayed=seen",
]

pytestmark = [
    pytest.mark.filterwarnings("ignore:the last 20 steps"),
    pytest.mark.filterwarnings("ignore:bic.* fits its bias correction on rows"),
]


NAMES = [name for name in method_names() if name not in ALIASES]
QUICKER = {
    "e2e": "e2e:fine_tune_epochs=3",
    "e2e-las": "e2e-las:fine_tune_epochs=3",
    "gdumb": "gdumb:epochs=6",
    "rar": "rar:iterations=3",
    "rar-las": "rar-las:iterations=3",
}
"""30 epochs at each task's end, or 10 steps with each batch, are the same again and again; tests of
the methods have them."""
SAME_CODE = {  # what the criterion has no part in: the plain form's code
    check_batchnorm_is_left_alone,
    check_boundaries,
    check_corrections,
    check_failed_task_hooks_leave_no_trace,
    check_inputs_stay,
    check_memory_is_bounded,
}


def promises():
    """Every check on every form; those on `-las` forms that the plain form has passed are slow."""
    for method in NAMES + ABLATIONS + VARIANTS:
        for check in CHECKS:
            again = method in NAMES and method.endswith("-las") and check in SAME_CODE
            marks = [pytest.mark.slow] if again else []
            yield pytest.param(method, check, id=f"{method}-{check.__name__}", marks=marks)


@pytest.mark.parametrize(("method", "check"), list(promises()))
def test_promise(method, check):
    check(QUICKER.get(method, method))


@pytest.mark.slow
@pytest.mark.parametrize("method", NAMES + ABLATIONS + VARIANTS)
def test_long_stream(method):
    check_long_stream(method)


def register_for_test(monkeypatch, cls):
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


@dataclass
class ForgetsToUndo(ER):
    """Changes weights at task ends, behind the learner's back."""

    def on_task_end(self, learner, data):
        with torch.no_grad():
            learner.network.head.weight += 1


@dataclass
class ForgetsToUndoTheStart(ER):
    """Changes weights when a task begins, behind the learner's back."""

    def on_task_start(self, learner, data):
        if learner.built:
            with torch.no_grad():
                learner.network.head.bias += 1


@pytest.mark.parametrize(
    ("cls", "complaint"),
    [
        (UnsavedState, "continues differently"),
        (GlobalDraws, "not reproducible"),
        (TouchesStatistics, "BatchNorm's running statistics"),
        (LearnsNothing, "of a separable stream right"),
        (ForgetsToUndo, "end_task leaves a trace"),
        (ForgetsToUndoTheStart, "start_task leaves a trace"),
    ],
)
def test_broken_methods_are_found_out(monkeypatch, cls, complaint):
    register_for_test(monkeypatch, cls)
    with pytest.raises(AssertionError, match=complaint):
        check_method("broken")


@dataclass
class CountsInPlace(ER):
    """Changes a tensor in place, so that what a refused step counted stays."""

    def training_rows(self, step):
        self.tensors.setdefault("steps", torch.zeros(())).add_(1)
        return super().training_rows(step)


@dataclass
class NeedsTwoRows(ER):
    """Divides by the spread of the batch, which a single row does not have."""

    def loss(self, step):
        return super().loss(step) / step.incoming.x.std(0).mean()


@pytest.mark.parametrize(
    ("cls", "check", "error", "complaint"),
    [
        (CountsInPlace, check_refusals_leave_no_trace, AssertionError, "leaves a trace"),
        (NeedsTwoRows, check_takes_any_batch, NonFiniteLoss, "loss is nan"),
    ],
)
@pytest.mark.filterwarnings("ignore:std")
def test_single_checks_find_what_they_are_for(monkeypatch, cls, check, error, complaint):
    check("er")
    register_for_test(monkeypatch, cls)
    with pytest.raises(error, match=complaint):
        check("broken")
