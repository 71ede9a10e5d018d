"""The report page: one HTML file with everything in it."""

from __future__ import annotations

from pathlib import Path

from evenstream.errors import EvenstreamError
from evenstream.files import write_atomically
from evenstream.report.comparison import chart_sections, header, sections
from evenstream.report.comparison.content import Content
from evenstream.report.frame import frame
from evenstream.report.html import lines

__all__ = ["write_report"]


def write_report(
    directory: Path | str, output: Path | str | None = None, budget: float | None = None
) -> Path:
    """Write the report of a run or a comparison as one HTML file and return its path.

    The page holds its styles and charts, has no scripts and loads nothing from anywhere. Runs
    that have not finished are named on it. The same runs give the same bytes.

    Args:
        directory: a run directory, or a comparison directory with `runs/<method>/seed-<s>/`.
        output: the file to write, or a directory to write `report.html` to; by default the
            directory of the runs.
        budget: times the image passes of ER-LAS beyond which methods are marked; by default that
            of the comparison, if it has one.

    Raises:
        EvenstreamError: there is no run in the directory, its runs cannot be compared, or the
            file cannot be written.
    """
    directory = Path(directory)
    page = _page(Content.read(directory, budget))
    path = directory if output is None else Path(output)
    if path.is_dir():
        path = path / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page)
    except OSError as error:
        raise EvenstreamError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _page(content: Content) -> str:
    """Put the page together."""
    title = header.title(content)
    return frame(title, header.header(content, title), _sections(content))


def _sections(content: Content) -> str:
    """Return all sections that have something to show."""
    parts = [sections.unfinished(content), sections.skipped(content)]
    if content.series:
        parts += [
            sections.results(content),
            chart_sections.accuracy(content.series),
            chart_sections.online(content),
            chart_sections.matrices(content.series),
            chart_sections.shares([s for s in content.series if s.has_share]),
            chart_sections.recalls([s for s in content.series if s.has_recall], content.classes),
            chart_sections.seconds([s for s in content.series if s.has_seconds]),
            sections.further(content),
        ]
    parts.append(sections.setup(content))
    return lines([part for part in parts if part])
