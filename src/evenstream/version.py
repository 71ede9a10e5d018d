"""The version of this package, for saves, pages and commands."""

__version__ = "0.2.0"
