"""Put the repository's address into what PyPI shows: `python -m tools.set_address ADDRESS TAG`.

The repository itself names no address of its own. The release workflow knows the one that it runs
in, and has it written into pyproject.toml and README.md, whose links and picture are relative,
just before it builds. Never commit the result.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = "# [project.urls] is written here by tools/set_address.py when a release is built\n"


def with_urls(pyproject: str, address: str, tag: str) -> str:
    """pyproject.toml with the addresses that PyPI links to."""
    if PLACE not in pyproject:
        raise ValueError(f"pyproject.toml lacks the line {PLACE!r}")
    pages = {
        "Repository": address,
        "Documentation": f"{address}/blob/{tag}/docs/index.md",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    lines = "".join(f'{name} = "{page}"\n' for name, page in pages.items())
    return pyproject.replace(PLACE, f"[project.urls]\n{lines}")


def with_absolute_links(readme: str, address: str, tag: str) -> str:
    """A README whose links and pictures work outside the repository."""

    def absolute(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}[{match[2]}]({address}/{kind}/{tag}/{match[3]})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)", absolute, readme)


def main() -> None:
    """Rewrite both files in place."""
    address, tag = sys.argv[1].rstrip("/"), sys.argv[2]
    for name, rewrite in (("pyproject.toml", with_urls), ("README.md", with_absolute_links)):
        file = ROOT / name
        text = rewrite(file.read_text(encoding="utf-8"), address, tag)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
