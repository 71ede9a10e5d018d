"""The version of this package, for whatever names it: saves, pages, commands."""

__version__ = "0.2.0"
