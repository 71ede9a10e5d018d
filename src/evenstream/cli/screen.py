"""What commands print to."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class Screen(Console):
    """A console whose reader may leave early, as `head` does; `main` sees to that."""

    def on_broken_pipe(self) -> NoReturn:
        """Tell `main`; the original ends the process with status 1."""
        raise BrokenPipeError
