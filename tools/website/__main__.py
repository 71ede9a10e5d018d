"""Build the documentation site into site/ and check every link in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import tomli_w

from tools.website.las_figure import draw_las
from tools.website.links import broken_links
from tools.website.method_pages import link_methods, method_pages
from tools.website.navigation import with_generated_pages
from tools.website.reference_pages import reference_pages

ROOT = Path(__file__).parents[2]
STAGE = ROOT / "build"
"""Pages that were written and pages that are generated come together here."""


def stage() -> Path:
    """Put all pages and the configuration into build/; returns the configuration's path."""
    docs = STAGE / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(ROOT / "docs", docs)
    _bring_examples(docs)
    methods, reference = method_pages(ROOT / "docs"), reference_pages()
    for page in [*methods, *reference]:
        target = docs / page.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.text, encoding="utf-8")
    index = docs / "methods" / "index.md"
    index.write_text(link_methods(index.read_text(encoding="utf-8")), encoding="utf-8")
    draw_las(docs / "assets")
    config = STAGE / "zensical.toml"
    written = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    config.write_text(
        tomli_w.dumps(with_generated_pages(written, methods, reference)), encoding="utf-8"
    )
    return config


def _bring_examples(docs: Path) -> None:
    """Have the programs of examples/ on the site, where links to them lead."""
    shutil.copytree(ROOT / "examples", docs / "examples", ignore=shutil.ignore_patterns("__*"))
    for page in docs.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"\]\(\.\./((?:\.\./)*examples/)", r"](\1", text), encoding="utf-8")


def main() -> int:
    """Build and check; returns the exit status."""
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(stage())]
    status = subprocess.run(build, cwd=ROOT, check=False).returncode
    if status:
        return status
    site = ROOT / "site"
    shutil.rmtree(site, ignore_errors=True)
    (STAGE / "site").replace(site)  # the generator writes nowhere but below its configuration
    found = broken_links(site)
    for link in found:
        print(f"broken link: {link}", file=sys.stderr)
    if not found:
        print(f"site: {site / 'index.html'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
