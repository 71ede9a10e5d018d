"""Small pieces of HTML; everything that comes from a run is escaped here."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from evenstream.report.formats import plain


def escape(value: object) -> str:
    """Return a value as text that is safe in HTML and in its attributes."""
    return html.escape(str(value), quote=True)


def breakable(name: str) -> str:
    """Escape a name and let it wrap after the signs that join its parts."""
    return re.sub(r"([:,=/])", r"\1<wbr>", escape(name))


def code(name: str) -> str:
    """Return a name as written in a command."""
    return f"<code>{breakable(name)}</code>"


def lines(parts: list[str]) -> str:
    """Join pieces, one to a line."""
    return "\n".join(parts)


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


def labelled(svg: str, label: str) -> str:
    """Say in words what a chart shows, for those who cannot see it."""
    return svg.replace("<svg ", f'<svg class="plot" role="img" aria-label="{escape(label)}" ', 1)


def spread(values: Mapping[str, Any], digits: int = 1) -> str:
    """Return "mean ± std" with the deviation in a quieter colour."""
    mean = plain(values["mean"], digits)
    if values["std"] is None:
        return mean
    return f'{mean} <span class="pm">± {values["std"]:.{digits}f}</span>'
