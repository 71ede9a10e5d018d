"""The console that commands print to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from evenstream.printable import printable


class Screen(Console):
    """A console for plain text: brackets are not markup, and control characters are escaped.

    Its reader may leave early, as `head` does; `main` handles that.
    """

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape text before it is measured, so that it gets the space it needs."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Escape what is shown, but keep the console's own cursor movements."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def on_broken_pipe(self) -> NoReturn:
        """Tell `main`; the inherited method would exit with status 1."""
        raise BrokenPipeError
