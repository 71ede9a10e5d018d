"""Text from data and paths, as a terminal may be shown it."""

from __future__ import annotations

import io
import re
import sys
from typing import TextIO

_COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # other lines, other directions
    r"\ud800-\udfff]"  # bytes of a path that are no text
)


def printable(text: str) -> str:
    """The text with all that could move, colour or hide other text escaped."""
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: str) -> None:
    """Print a line."""
    print(printable(text), flush=True)


def say_error(text: str) -> None:
    """Print a line on the standard error."""
    print(printable(text), file=sys.stderr)


class Escaping(io.TextIOBase):
    """A terminal that a file is written to."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        return self._terminal.write(printable(text))

    def flush(self) -> None:
        """Show it now."""
        self._terminal.flush()
