"""Makes text from data and paths safe to show on a terminal."""

from __future__ import annotations

import io
import re
import sys
from typing import TextIO

_COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and newline
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line separators, text direction
    r"\ud800-\udfff]"  # bytes of a path that are not text
)


def printable(text: str) -> str:
    """The text with everything escaped that could move, colour or hide other text."""
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: str) -> None:
    """Print a line."""
    print(printable(text), flush=True)


def say_error(text: str) -> None:
    """Print a line on the standard error."""
    print(printable(text), file=sys.stderr)


class Escaping(io.TextIOBase):
    """A terminal behind a file interface."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        return self._terminal.write(printable(text))

    def flush(self) -> None:
        """Show it now."""
        self._terminal.flush()
