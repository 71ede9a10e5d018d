"""What every page has: one HTML file without scripts that loads nothing and follows the theme."""

from __future__ import annotations

from importlib import resources

from evenstream.report.charts.style import DARK, LIGHT, Colours
from evenstream.report.html import breakable, escape
from evenstream.version import __version__


def frame(title: str, header: str, sections: str, style: str = "") -> str:
    """Return a page.

    Args:
        title: of the window, as text.
        header: the top of the page, as HTML.
        sections: its content, as HTML.
        style: further rules of the style sheet.
    """
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="evenstream {escape(__version__)}">
<link rel="icon" href="data:,">
<title>{escape(title)} · evenstream</title>
<style>
{_palette()}
{resources.files("evenstream.report").joinpath("page.css").read_text(encoding="utf-8")}{style}</style>
</head>
<body>
{header}
<main>
{sections}
</main>
<footer>Made with evenstream {escape(__version__)}. This page is a single file: it has no scripts
and loads nothing from the network.</footer>
</body>
</html>
"""


def header(title: str, lead: str, further: str = "") -> str:
    """Return the top of a page: its title, and what it comes to, as HTML."""
    return f"""<header class="top"><div>
<p class="eyebrow">evenstream report</p>
<h1>{breakable(title)}</h1>
<p class="lead">{lead}</p>
{further}</div></header>"""


def _palette() -> str:
    """Return the colours of the charts as CSS variables, for light and for dark pages."""

    def variables(colours: Colours) -> str:
        return " ".join(f"--{name}: {value};" for name, value in colours.items())

    return (
        f":root {{ {variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}"
    )
