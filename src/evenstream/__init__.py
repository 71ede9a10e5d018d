"""evenstream: online continual learning with Logit Adjusted Softmax.

`Learner` learns from batches; `methods`, `rules`, `heads`, `priors`, `retrieval`, `storing`,
`teachers`, `networks`, `augment` and `streams` hold the parts it can be composed of.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenstream.version import __version__ as __version__

if TYPE_CHECKING:
    from evenstream import augment, data, encoders, methods, networks, streams
    from evenstream.core import drift, edits, heads
    from evenstream.core.heads import register_head
    from evenstream.core.optimizers import register_optimizer
    from evenstream.core.state import LearnerState
    from evenstream.core.step import Step, StepResult
    from evenstream.data import register_dataset
    from evenstream.encoders import register_encoder
    from evenstream.errors import (
        DamageWarning,
        DataWarning,
        DriftWarning,
        EvenstreamError,
        EvenstreamWarning,
        LearningWarning,
        LostTicket,
        MetricWarning,
        NotLearning,
        TrackingWarning,
        WorkerWarning,
    )
    from evenstream.learner.frozen import Frozen
    from evenstream.learner.learner import Learner
    from evenstream.learner.snapshot import Snapshot
    from evenstream.live import follow, register_source
    from evenstream.methods import Method, register
    from evenstream.metrics import register_metric
    from evenstream.networks import register_network
    from evenstream.policies import priors, retrieval, rules, storing, teachers
    from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
    from evenstream.policies.rules import register_rule
    from evenstream.streams import register_scenario
    from evenstream.tabular import TableEncoder

logging.getLogger("evenstream").addHandler(logging.NullHandler())  # quiet unless configured

_MODULES = {
    "augment": "evenstream.augment",
    "data": "evenstream.data",
    "edits": "evenstream.core.edits",
    "drift": "evenstream.core.drift",
    "encoders": "evenstream.encoders",
    "heads": "evenstream.core.heads",
    "methods": "evenstream.methods",
    "networks": "evenstream.networks",
    "priors": "evenstream.policies.priors",
    "retrieval": "evenstream.policies.retrieval",
    "rules": "evenstream.policies.rules",
    "storing": "evenstream.policies.storing",
    "streams": "evenstream.streams",
    "teachers": "evenstream.policies.teachers",
}
_HOME = {
    "CrossEntropy": "evenstream.policies.criteria",
    "DamageWarning": "evenstream.errors",
    "DataWarning": "evenstream.errors",
    "DriftWarning": "evenstream.errors",
    "EvenstreamError": "evenstream.errors",
    "EvenstreamWarning": "evenstream.errors",
    "Frozen": "evenstream.learner.frozen",
    "Learner": "evenstream.learner.learner",
    "LearnerState": "evenstream.core.state",
    "LearningWarning": "evenstream.errors",
    "LogitAdjustedSoftmax": "evenstream.policies.criteria",
    "LostTicket": "evenstream.errors",
    "Method": "evenstream.methods",
    "MetricWarning": "evenstream.errors",
    "NotLearning": "evenstream.errors",
    "Snapshot": "evenstream.learner.snapshot",
    "Step": "evenstream.core.step",
    "StepResult": "evenstream.core.step",
    "TableEncoder": "evenstream.tabular",
    "TrackingWarning": "evenstream.errors",
    "WorkerWarning": "evenstream.errors",
    "follow": "evenstream.live",
    "register": "evenstream.methods",
    "register_dataset": "evenstream.data",
    "register_encoder": "evenstream.encoders",
    "register_head": "evenstream.core.heads",
    "register_metric": "evenstream.metrics",
    "register_network": "evenstream.networks",
    "register_optimizer": "evenstream.core.optimizers",
    "register_rule": "evenstream.policies.rules",
    "register_scenario": "evenstream.streams",
    "register_source": "evenstream.live.sources",
}

__all__ = [
    "CrossEntropy",
    "DamageWarning",
    "DataWarning",
    "DriftWarning",
    "EvenstreamError",
    "EvenstreamWarning",
    "Frozen",
    "Learner",
    "LearnerState",
    "LearningWarning",
    "LogitAdjustedSoftmax",
    "LostTicket",
    "Method",
    "MetricWarning",
    "NotLearning",
    "Snapshot",
    "Step",
    "StepResult",
    "TableEncoder",
    "TrackingWarning",
    "WorkerWarning",
    "augment",
    "data",
    "drift",
    "edits",
    "encoders",
    "follow",
    "heads",
    "methods",
    "networks",
    "priors",
    "register",
    "register_dataset",
    "register_encoder",
    "register_head",
    "register_metric",
    "register_network",
    "register_optimizer",
    "register_rule",
    "register_scenario",
    "register_source",
    "retrieval",
    "rules",
    "storing",
    "streams",
    "teachers",
]


if not TYPE_CHECKING:  # or a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import on first use, so that `evenstream --help` need not wait for PyTorch."""
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        raise AttributeError(f"module 'evenstream' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Everything that can be imported, whether it has been imported yet or not."""
    return [*__all__, "__version__"]
