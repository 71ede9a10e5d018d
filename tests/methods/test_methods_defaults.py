"""The values that methods have unless told otherwise are those of their descriptions."""

import dataclasses

import pytest

from evenstream.composition import compose
from evenstream.core.heads import Cosine
from evenstream.methods import METHODS
from evenstream.policies.rules import (
    BiasCorrected,
    NearestClassMean,
    PostHocCorrection,
    Rescaled,
)
from evenstream.streams.stream import Protocol

KEPT = {"weight": 5.0, "averaging": 0.0}
MIXED = {"mix": "joint", "temperature": 2.0}
DEFAULTS = {
    "lwf": {"weight": 0.5, "temperature": 2.0, "form": "ce", "scaled": False, "averaging": 0.0},
    "lucir": {**KEPT, "adaptive": False},
    "geodl": {**KEPT, "form": "cosine", "centring": "batch"},
    "mkd": {"weight": 5.5, "averaging": 0.99, "temperature": 4.0, "raw_view": True},
    "lwf-lt": {"columns": "task", "weight": 5.0, "temperature": 2.0},
    "bic": {
        **MIXED, "lambda_mode": "classes", "held_out": 0.1, "bias_lr": 0.001, "bias_epochs": 50,
    },
    "e2e": {
        **MIXED, "weight": 0.5, "fine_tune_lr": 0.003, "fine_tune_epochs": 30, "form": "ce",
        "distilled": "all", "exemplars": "random",
    },
    "il2m": {"measured": "in-training"},
    "lucir-full": {
        "mix": "joint", "weight": 5.0, "hardest": 2, "margin": 0.5, "exemplars": "herding",
        "fine_tune_epochs": 0, "fine_tune_lr": 0.01,
    },
    "scr": {"view": "own", "temperature": 0.07, "projection": 128, "review": False},
    "pcr": {"view": "own", "temperature": 0.09, "skip_first": True, "forwards": "joint"},
    "ocm": {
        "view": "own", "temperature": 0.07, "projection": 128, "later_weight": 0.5, "beta2": 0.99,
    },
    "ewc": {"strength": 90.0, "tasks": "online", "gamma": 1.0, "fisher": "empirical"},
    "labels-trick": {"columns": "batch"},
    "pec": {
        "student_lr": 0.01, "schedule": "linear", "hidden": 10, "teacher_width": 500, "outputs": 99,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_of_the_description(name):
    found = {field.name: field.default for field in dataclasses.fields(METHODS[name])}
    assert found == DEFAULTS[name]


def test_slots_have_the_options_of_their_method():
    bias = compose("bic:bias_lr=0.01,bias_epochs=3").rule
    assert isinstance(bias, BiasCorrected) and (bias.lr, bias.epochs) == (0.01, 3)
    assert compose("il2m").rule == Rescaled("in-training")
    assert compose("il2m:measured=afterwards").rule == Rescaled("afterwards")
    assert isinstance(compose("scr").rule, NearestClassMean)
    assert compose("lucir-full").head == Cosine(1.0, scale_learned=True)
    assert compose("er-posthoc:tau=2,decay=0.5").rule == PostHocCorrection(2, 0.5)


def test_the_offline_protocol_is_the_papers():
    protocol = Protocol().offline()
    assert (protocol.epochs, protocol.memory) == (50, 100)
    assert (protocol.batch, protocol.replay_batch, protocol.lr) == (32, 32, 0.03)
