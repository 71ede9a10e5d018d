"""What the generator does not check: links in the built pages, raw HTML and pictures included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Anchors(HTMLParser):
    """The targets that a page offers, and the links that it follows."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids, names of anchors, and whatever points elsewhere."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value or "")
            elif name in ("href", "src") and value and tag != "base":
                self.links.append(value)


@cache
def read_page(path: Path) -> Anchors:
    """A page's ids and links."""
    page = Anchors()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_links(site: Path) -> list[str]:
    """Every link within a built site whose file or anchor does not exist, as `page: link`."""
    read_page.cache_clear()
    return sorted(
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.html")
        if page.name != "404.html"  # its links are absolute: it is served for any address
        for link in _broken(page, site)
    )


def _broken(page: Path, site: Path) -> Iterator[str]:
    for link in set(read_page(page).links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = _target(page, unquote(parts.path), site)
        if not target.is_file() or not _has(target, parts.fragment):
            yield link


def _target(page: Path, path: str, site: Path) -> Path:
    if not path:
        return page
    start = site if path.startswith("/") else page.parent
    target = (start / path.lstrip("/")).resolve()
    return target / "index.html" if target.is_dir() else target


def _has(page: Path, fragment: str) -> bool:
    if not fragment or page.suffix != ".html":
        return True
    return bool({fragment, unquote(fragment)} & read_page(page).ids)
