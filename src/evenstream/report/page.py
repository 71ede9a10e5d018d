"""The report page: one HTML file with everything in it."""

from __future__ import annotations

import os
import tempfile
from importlib import resources
from pathlib import Path

from evenstream import __version__
from evenstream.errors import EvenstreamError
from evenstream.report import chart_sections, header, sections
from evenstream.report.charts.style import DARK, LIGHT, Colours
from evenstream.report.content import Content
from evenstream.report.html import escape, lines

__all__ = ["write_report"]


def write_report(directory: Path | str, output: Path | str | None = None) -> Path:
    """Write the report of a run or a comparison as one HTML file and return its path.

    The page holds its styles and charts, has no scripts and loads nothing from anywhere. Runs
    that have not finished are named on it. The same runs give the same bytes.

    Args:
        directory: a run directory, or a comparison directory with `runs/<method>/seed-<s>/`.
        output: the file to write, or a directory to write `report.html` to; by default the
            directory of the runs.

    Raises:
        EvenstreamError: there is no run in the directory, its runs cannot be compared, or the
            file cannot be written.
    """
    directory = Path(directory)
    page = _page(Content.read(directory))
    path = directory if output is None else Path(output)
    if path.is_dir():
        path = path / "report.html"
    try:
        _replace(path, page)
    except OSError as error:
        raise EvenstreamError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _replace(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)  # mkstemp makes files that only the owner can read
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _page(content: Content) -> str:
    """Put the page together."""
    title = header.title(content)
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
{resources.files("evenstream.report").joinpath("page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
{header.header(content, title)}
<main>
{_sections(content)}
</main>
<footer>Made with evenstream {escape(__version__)}. This page is a single file: it has no scripts
and loads nothing from the network.</footer>
</body>
</html>
"""


def _sections(content: Content) -> str:
    """Return all sections that have something to show."""
    parts = [sections.unfinished(content), sections.skipped(content)]
    if content.series:
        parts += [
            sections.results(content),
            chart_sections.accuracy(content.series),
            chart_sections.online([s for s in content.series if len(s.steps)], content.finished),
            chart_sections.matrices(content.series),
            chart_sections.shares([s for s in content.series if s.has_share]),
            chart_sections.recalls([s for s in content.series if s.has_recall], content.classes),
            chart_sections.seconds([s for s in content.series if s.has_seconds]),
            sections.further(content),
        ]
    parts.append(sections.setup(content))
    return lines([part for part in parts if part])


def _palette() -> str:
    """Return the colours of the charts as CSS variables, for light and for dark pages."""

    def variables(colours: Colours) -> str:
        return " ".join(f"--{name}: {value};" for name, value in colours.items())

    return (
        f":root {{ {variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(DARK)} }} }}"
    )
