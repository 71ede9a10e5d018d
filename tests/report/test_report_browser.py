import html
import re
import shutil
import subprocess

import pytest
from report_samples import write_comparison

from evenstream.report import write_report

image = pytest.importorskip("matplotlib.image")

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine, so the page cannot be looked at"
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Written into the page as text: everything that sticks out of the window, or of its chart.
PROBE = """<script>addEventListener("load", () => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push("page is wider than the window");
  for (const svg of document.querySelectorAll("svg.plot")) {
    const box = svg.getBoundingClientRect();
    if (!box.width) continue;
    for (const text of svg.querySelectorAll("text")) {
      const t = text.getBoundingClientRect();
      if (t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 ||
          t.bottom > box.bottom + 1) found.push("text leaves its chart: " + text.textContent);
      if (t.height < 7) found.push("text is too small: " + text.textContent + " " + t.height);
    }
    const texts = [...svg.querySelectorAll("text")];
    const seen = texts.map(e => e.getBoundingClientRect());
    for (let i = 0; i < seen.length; i++) for (let j = i + 1; j < seen.length; j++) {
      const a = seen[i], b = seen[j];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
        found.push("texts overlap: " + texts[i].textContent + " | " + texts[j].textContent);
    }
  }
  for (const e of document.querySelectorAll("h1,h2,h3,p,li,dd,td,th,code")) {
    if (e.closest(".scroll, details")) continue;
    const head = e.closest("thead");  // on narrow screens it is kept for screen readers only
    if (head && getComputedStyle(head).position === "absolute") continue;
    const r = e.getBoundingClientRect();
    if (r.width && r.right > width + 1) found.push("sticks out: " + e.textContent.slice(0, 40));
  }
  const charts = [...document.querySelectorAll("svg.plot")].filter(
    s => s.getBoundingClientRect().width).length;
  parent.document.getElementById("probe").textContent =
    `width=${width} charts=${charts} ground=${getComputedStyle(document.body).backgroundColor} ` +
    `problems=${JSON.stringify([...new Set(found)].slice(0, 8))}`;
});</script>"""


def chromium(tmp_path, page, *flags):
    profile = tmp_path / "profile"
    try:
        return subprocess.run(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()],
            check=True,
            capture_output=True,
            text=True,
            timeout=90,
        ).stdout
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def probe(tmp_path, report, width, *flags):
    source = report.read_text()
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    assert policy.search(source)
    inner = html.escape(policy.sub("", source).replace("</body>", PROBE + "</body>"))
    page = tmp_path / "probe.html"
    # A browser window cannot be narrower than 500 pixels, but a frame can.
    page.write_text(
        '<!DOCTYPE html><meta charset="utf-8"><pre id="probe"></pre>'
        f'<iframe style="width:{width}px;height:1000px;border:0" srcdoc="{inner}"></iframe>'
    )
    dom = chromium(tmp_path, page, "--window-size=1400,1200", "--dump-dom", *flags)
    found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)
    assert found and found[1], "the page did not load"
    return html.unescape(found[1])


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    root = tmp_path_factory.mktemp("reports")
    three = {"finetune": 0.0, "er": 0.5, "er-las": 0.85}
    long = {f"er-las:prior=macro,window={k},temperature=1.{k}": k / 8 for k in range(8)}
    return {
        "small": write_report(write_comparison(root / "small", three)),
        "large": write_report(
            write_comparison(root / "large", long, (0, 1), n_tasks=20, classes_per_task=5)
        ),
    }


@pytest.mark.parametrize("width", [1280, 768, 390])
@pytest.mark.parametrize("name", ["small", "large"])
def test_nothing_overflows(reports, tmp_path, name, width):
    found = probe(tmp_path, reports[name], width)
    assert f"width={width}" in found
    assert "problems=[]" in found, found
    charts = {"small": 6, "large": 8 + 8 + 2}[name]
    assert f"charts={charts}" in found


def test_dark_mode(reports, tmp_path):
    light = probe(tmp_path, reports["small"], 800, "--blink-settings=preferredColorScheme=1")
    dark = probe(tmp_path, reports["small"], 800, "--blink-settings=preferredColorScheme=0")
    assert "ground=rgb(244, 246, 249)" in light
    assert "ground=rgb(14, 19, 25)" in dark


def test_screenshot_is_drawn(reports, tmp_path):
    shot = tmp_path / "shot.png"
    chromium(tmp_path, reports["small"], "--window-size=1280,2600", f"--screenshot={shot}")
    pixels = image.imread(shot)[..., :3]
    assert pixels.shape[:2] == (2600, 1280)
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x80, 0x5C)):
        near = (abs(pixels - [c / 255 for c in colour]) < 0.02).all(axis=-1)
        assert near.sum() > 500, colour
