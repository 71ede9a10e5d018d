"""evenstream: online continual learning with Logit Adjusted Softmax.

`Learner` learns from batches; `methods`, `rules`, `heads`, `priors`, `retrieval`, `storing`,
`networks` and `streams` hold what it can be composed of.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenstream.version import __version__ as __version__

if TYPE_CHECKING:
    from evenstream import methods, networks, streams
    from evenstream.core import heads
    from evenstream.core.heads import register_head
    from evenstream.core.optimizers import register_optimizer
    from evenstream.core.state import LearnerState
    from evenstream.core.step import Step, StepResult
    from evenstream.data import register_dataset
    from evenstream.errors import EvenstreamError
    from evenstream.learner.learner import Learner
    from evenstream.live import follow, register_source
    from evenstream.methods import Method, register
    from evenstream.metrics import register_metric
    from evenstream.networks import register_network
    from evenstream.policies import priors, retrieval, rules, storing
    from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
    from evenstream.policies.rules import register_rule
    from evenstream.streams import register_scenario

_MODULES = {
    "heads": "evenstream.core.heads",
    "methods": "evenstream.methods",
    "networks": "evenstream.networks",
    "priors": "evenstream.policies.priors",
    "retrieval": "evenstream.policies.retrieval",
    "rules": "evenstream.policies.rules",
    "storing": "evenstream.policies.storing",
    "streams": "evenstream.streams",
}
_HOME = {
    "CrossEntropy": "evenstream.policies.criteria",
    "EvenstreamError": "evenstream.errors",
    "Learner": "evenstream.learner.learner",
    "LearnerState": "evenstream.core.state",
    "LogitAdjustedSoftmax": "evenstream.policies.criteria",
    "Method": "evenstream.methods",
    "Step": "evenstream.core.step",
    "StepResult": "evenstream.core.step",
    "follow": "evenstream.live",
    "register": "evenstream.methods",
    "register_dataset": "evenstream.data",
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
    "EvenstreamError",
    "Learner",
    "LearnerState",
    "LogitAdjustedSoftmax",
    "Method",
    "Step",
    "StepResult",
    "follow",
    "heads",
    "methods",
    "networks",
    "priors",
    "register",
    "register_dataset",
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
]


if not TYPE_CHECKING:  # a type checker would take any name for one that there is

    def __getattr__(name: str) -> Any:
        """Import on first use, so that `evenstream --help` need not wait for PyTorch."""
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        raise AttributeError(f"module 'evenstream' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is to import, whether it has been imported or not."""
    return sorted({*globals(), *__all__})
