"""A line of text that shows progress in notebooks, on terminals and in log files."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from evenstream.printable import printable

IN_PLACE_SECONDS = 0.2
"""Minimum seconds between updates of a line in place."""
PLAIN_EVERY_SECONDS = 10.0
"""Seconds between new lines where none can be updated in place."""


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, which shows what IPython displays."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class Line:
    """A line that updates in place in notebooks and on terminals; elsewhere a line now and then.

    In a notebook it needs neither widgets nor scripts, and the last text stays in the saved file.
    """

    def __init__(self) -> None:
        self._notebook = in_notebook()
        self._in_place = self._notebook or sys.stderr.isatty()
        self._handle: Any = None
        self._text = ""
        self._shown = "" if self._in_place else None
        self._next = time.monotonic() + (0 if self._in_place else PLAIN_EVERY_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def show(self, text: str) -> None:
        """Show this text, now or soon."""
        self._text = printable(text)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (IN_PLACE_SECONDS if self._in_place else PLAIN_EVERY_SECONDS)
            self._draw()

    def close(self) -> None:
        """Leave the last text in place."""
        if self._text and self._text != self._shown:
            self._draw()
        if self._shown and self._in_place and not self._notebook:
            print(file=sys.stderr)
        self._text = ""

    def _draw(self) -> None:
        if self._notebook:
            self._display({"text/plain": self._text})
        elif self._in_place:
            print(f"\r\x1b[2K{self._text}", end="", file=sys.stderr, flush=True)
        else:
            print(self._text, file=sys.stderr, flush=True)
        self._shown = self._text

    def _display(self, data: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)
