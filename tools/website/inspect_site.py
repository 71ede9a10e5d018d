"""Look at the built site in a browser: `python -m tools.website.inspect_site`.

Every page is opened in Chromium, by turns on a wide, light screen and on a narrow, dark one.
axe-core checks that everybody can use it, and no page may be wider than its screen. With
`--screenshots FOLDER`, every page is seen in all views, with pictures for a person to look at.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

HERE = Path(__file__).parent
SITE = HERE.parents[1] / "site"
AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = [(width, scheme) for width in (390, 820, 1440) for scheme in ("light", "dark")]
SAMPLE = [(1440, "light"), (390, "dark")]
"""What is checked when nobody looks: neighbours share a template, so they take turns."""
GENERATED = ("methods/", "reference/api/")
FEW = ("methods/er", "methods/derpp", "methods/fine-tune", "reference/api/heads")
"""Generated pages are alike; these stand for all of them in a quick inspection."""
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
]
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  found => done(found.violations.map(v => [v.impact, v.id, v.help,
    v.nodes.slice(0, 3).map(n => n.target.join(" ")), v.nodes.length])),
  error => done([["serious", "axe", String(error), [], 1]]));
"""
TOO_WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Unavailable(Exception):
    """A program that this needs is not installed."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with a page, and where."""

    page: str
    view: str
    impact: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.page} ({self.view}): {self.impact}: {self.rule}: {self.text}"

    @property
    def serious(self) -> bool:
        """Whether it keeps somebody from using the page."""
        return self.impact in ("serious", "critical")


def axe_source() -> str:
    """axe-core's code, installed with npm when it is not there yet."""
    if not AXE.is_file():
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("npm is not installed, and axe-core comes from there")
        done = subprocess.run([npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=HERE)
        if done.returncode:
            raise Unavailable("npm could not install axe-core")
    return AXE.read_text(encoding="utf-8")


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """A folder as a web server on this machine; gives its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """A Chromium without a window."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise Unavailable("install Chromium and its driver: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        chrome = webdriver.Chrome(options, Service(driver))
        chrome.set_script_timeout(300)  # the page of results has thousands of cells
        try:
            yield chrome
        finally:
            chrome.quit()


def open_page(chrome: webdriver.Chrome, address: str, width: int, scheme: str) -> None:
    """Show a page at a width, for somebody who prefers light or dark pages."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    chrome.get(address)


def check_page(chrome: webdriver.Chrome, page: str, view: str, axe: str) -> Iterator[Finding]:
    """What axe-core finds on the open page, and whether it is wider than the screen."""
    chrome.execute_script(axe)
    for impact, rule, text, where, count in chrome.execute_async_script(RUN_AXE):
        yield Finding(page, view, impact, rule, f"{text}: {count} of: {', '.join(where)}")
    wider = chrome.execute_script(TOO_WIDE)
    if wider > 0:
        yield Finding(page, view, "serious", "width", f"{wider} pixels wider than the screen")


def screenshot(chrome: webdriver.Chrome, file: Path) -> None:
    """The whole page as a picture."""
    height = chrome.execute_script("return document.documentElement.scrollHeight")
    width = chrome.execute_script("return window.innerWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 6000), "scale": 1}
    shot = chrome.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(shot["data"]))


def page_names(site: Path, wanted: Sequence[str] = (), *, quick: bool = False) -> list[str]:
    """The pages of a site as addresses below it: all, those wanted, or no two that are alike."""
    found = sorted(path.relative_to(site).parent.as_posix() for path in site.rglob("index.html"))
    if wanted:
        chosen = {page.strip("/") or "." for page in wanted}
        found = [name for name in found if name in chosen]
    if quick:
        found = [name for name in found if name in FEW or not name.startswith(GENERATED)]
    return ["" if name == "." else f"{name}/" for name in found]


def inspect(site: Path, pages: Sequence[str], screenshots: Path | None = None) -> Iterator[Finding]:
    """Open pages at the widths and in the schemes, and say what is wrong."""
    axe = axe_source()
    with served(site) as address, browser() as chrome:
        for number, page in enumerate(pages):
            for width, scheme in VIEWS if screenshots else [SAMPLE[number % 2]]:
                open_page(chrome, f"{address}/{page}", width, scheme)
                yield from check_page(chrome, page or "/", f"{width} {scheme}", axe)
                if screenshots:
                    name = page.strip("/").replace("/", "_") or "home"
                    screenshot(chrome, screenshots / f"{name}-{width}-{scheme}.png")


def main() -> int:
    """Inspect; returns 1 if something serious was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="addresses below the site, such as concepts/las")
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--quick", action="store_true", help="only some of the generated pages")
    args = parser.parse_args()
    if not (args.site / "index.html").is_file():
        print(f"{args.site} has no index.html: run `make docs` first", file=sys.stderr)
        return 1
    serious, pages = 0, page_names(args.site, args.pages, quick=args.quick)
    try:
        for finding in inspect(args.site, pages, args.screenshots):
            print(finding, flush=True)
            serious += finding.serious
    except Unavailable as error:
        print(f"the site was not inspected: {error}", file=sys.stderr)
        return 1
    print(f"{len(pages)} pages, {serious} serious findings")
    return 1 if serious else 0


if __name__ == "__main__":
    sys.exit(main())
