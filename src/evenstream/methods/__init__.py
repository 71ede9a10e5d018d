"""Methods: one short file each, registered by name. A file in this folder is imported by itself."""

import importlib
import pkgutil

from evenstream.core.part import TaskData
from evenstream.methods.base import METHODS, Method, make_method, method_names, register
from evenstream.plugins import import_plugins

__all__ = ["METHODS", "Method", "TaskData", "make_method", "method_names", "register"]


def _import_files() -> None:
    """Import every file of the folder, so that its methods register themselves."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


_import_files()
import_plugins()
