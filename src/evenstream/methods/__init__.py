"""Methods: one short file each, registered by name."""

from evenstream.methods import (
    derpp,
    er,
    er_ace,
    er_down,
    er_obc,
    er_up,
    er_wn,
    fine_tune,
    joint,
    mir,
    mro,
    ocs,
    ss_il,
)
from evenstream.methods.base import METHODS, Method, TaskData, make_method, method_names, register

__all__ = [
    "METHODS",
    "Method",
    "TaskData",
    "derpp",
    "er",
    "er_ace",
    "er_down",
    "er_obc",
    "er_up",
    "er_wn",
    "fine_tune",
    "joint",
    "make_method",
    "method_names",
    "mir",
    "mro",
    "ocs",
    "register",
    "ss_il",
]
