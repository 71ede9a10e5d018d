"""Methods: one short file each, registered by name."""

from evenstream.methods import er, fine_tune, joint
from evenstream.methods.base import METHODS, Method, TaskData, make_method, method_names, register

__all__ = [
    "METHODS",
    "Method",
    "TaskData",
    "er",
    "fine_tune",
    "joint",
    "make_method",
    "method_names",
    "register",
]
