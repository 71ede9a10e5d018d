"""evenstream: online continual learning with Logit Adjusted Softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evenstream.criteria import CrossEntropy, LogitAdjustedSoftmax
    from evenstream.errors import EvenstreamError
    from evenstream.learner import Learner
    from evenstream.methods import Method, register
    from evenstream.step import Step, StepResult

_HOME = {
    "CrossEntropy": "evenstream.criteria",
    "EvenstreamError": "evenstream.errors",
    "Learner": "evenstream.learner",
    "LogitAdjustedSoftmax": "evenstream.criteria",
    "Method": "evenstream.methods",
    "Step": "evenstream.step",
    "StepResult": "evenstream.step",
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
    "register",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `evenstream --help` need not wait for PyTorch."""
    if name not in _HOME:
        raise AttributeError(f"module 'evenstream' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
