"""Small pieces of HTML; everything that comes from a run is escaped here."""

from __future__ import annotations

import html
import re
from typing import Self

from evenstream.report.formats import format_spread
from evenstream.statistics import Interval


class Marked(str):
    """Text that pages show with more than its letters: as `html`, which is safe."""

    html: str

    def __new__(cls, text: str, html: str) -> Self:
        """Both forms of it."""
        made = super().__new__(cls, text)
        made.html = html
        return made


def escape(value: object) -> str:
    """Return a value as text that is safe in HTML and in its attributes."""
    return value.html if isinstance(value, Marked) else html.escape(str(value), quote=True)


def breakable(name: str) -> str:
    """Escape a name and let it wrap after the signs that join its parts."""
    return re.sub(r"([:,=/])", r"\1<wbr>", escape(name))


def code(name: str) -> str:
    """Return a name as written in a command."""
    return f"<code>{breakable(name)}</code>"


def lines(parts: list[str]) -> str:
    """Join pieces, one to a line."""
    return "\n".join(parts)


def bullets(items: list[str], kind: str = "") -> str:
    """Return pieces as a list."""
    own = f' class="{kind}"' if kind else ""
    return f"<ul{own}>\n{lines([f'<li>{item}</li>' for item in items])}\n</ul>"


def card(name: str, title: str, content: str, kind: str = "card") -> str:
    """Return a section with a heading."""
    return f"""<section class="{kind}" aria-labelledby="{name}">
<h2 id="{name}">{title}</h2>
{content}
</section>"""


def details(summary: str, content: str) -> str:
    """Return content that shows after a click."""
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"


def scroll(content: str, label: str) -> str:
    """Return content that scrolls sideways on its own when it is too wide."""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"{content}</div>"
    )


def labelled(svg: str, label: str, style: str = "") -> str:
    """Say in words what a chart shows, for those who cannot see it."""
    look = f'style="{style}" ' if style else ""
    attributes = f'{look}class="plot" role="img" aria-label="{escape(label)}"'
    return svg.replace("<svg ", f"<svg {attributes} ", 1)


def spread(values: Interval | None, digits: int = 1) -> Marked:
    """Return "mean ± std" with the deviation in a quieter colour."""
    text = format_spread(values, digits)
    mean, sign, std = text.partition(" ± ")
    return Marked(text, f'{mean} <span class="pm">± {std}</span>' if sign else mean)
