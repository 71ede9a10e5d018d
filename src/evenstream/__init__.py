"""evenstream: online continual learning with Logit Adjusted Softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evenstream.core.step import Step, StepResult
    from evenstream.errors import EvenstreamError
    from evenstream.learner.learner import Learner
    from evenstream.live import follow
    from evenstream.methods import Method, register
    from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax

_HOME = {
    "CrossEntropy": "evenstream.policies.criteria",
    "EvenstreamError": "evenstream.errors",
    "Learner": "evenstream.learner.learner",
    "LogitAdjustedSoftmax": "evenstream.policies.criteria",
    "Method": "evenstream.methods",
    "Step": "evenstream.core.step",
    "StepResult": "evenstream.core.step",
    "follow": "evenstream.live",
    "register": "evenstream.methods",
}

__all__ = [
    "CrossEntropy",
    "EvenstreamError",
    "Learner",
    "LogitAdjustedSoftmax",
    "Method",
    "Step",
    "StepResult",
    "follow",
    "register",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `evenstream --help` need not wait for PyTorch."""
    if name not in _HOME:
        raise AttributeError(f"module 'evenstream' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
