import html
import json
import re
import shutil
import subprocess

import pytest

from evenstream.report.charts.style import DARK
from evenstream.report.experiments import (
    Background,
    Contents,
    Stated,
    collect_outcome,
    find_runs,
    write_tables,
)
from tests.helpers.table_samples import EXPERIMENT, fill, make_experiment

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

# Writes before the frame what sticks out of the window or of its chart, overlaps or is too small.
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
  for (const e of document.querySelectorAll(".legend .method"))
    if (e.getBoundingClientRect().height > 60) found.push("name is squeezed: " + e.textContent);
  for (const e of document.querySelectorAll("h1,h2,h3,p,li,dd,td,th,code")) {
    if (e.closest(".scroll, details")) continue;
    const head = e.closest("thead");  // on narrow screens it is kept for screen readers only
    if (head && getComputedStyle(head).position === "absolute") continue;
    const r = e.getBoundingClientRect();
    if (r.width && r.right > width + 1) found.push("sticks out: " + e.textContent.slice(0, 40));
  }
  const charts = [...document.querySelectorAll("svg.plot")].filter(
    s => s.getBoundingClientRect().width).length;
  frameElement.previousElementSibling.textContent =
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


def frame(report, width):
    """Return a report as a frame that measures itself: unlike windows, frames can be narrow."""
    source = report.read_text()
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    assert policy.search(source)
    inner = html.escape(policy.sub("", source).replace("</body>", PROBE + "</body>"))
    style = f"width:{width}px;height:1000px;border:0"
    return f'<pre class="found"></pre><iframe style="{style}" srcdoc="{inner}"></iframe>'


def test_nothing_overflows(small_report, large_report, tmp_path):
    widths = (1280, 768, 390)
    reports = {small_report: 4 + 3 + 3, large_report: 6 + 6 + 6 + 3}
    expected = [
        f"width={width} charts={charts} ground=rgb(244, 246, 249) problems=[]"
        for charts in reports.values()
        for width in widths
    ]
    page = tmp_path / "probe.html"
    frames = [frame(report, width) for report in reports for width in widths]
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8">{"".join(frames)}')
    light = "--blink-settings=preferredColorScheme=1"
    dom = chromium(tmp_path, page, "--window-size=1400,1200", "--dump-dom", light)
    found = re.findall(r'<pre class="found">(.*?)</pre>', dom, re.S)
    assert [html.unescape(text) for text in found] == expected


TIMES = {"train_seconds": [Stated(84.7, None, 10, 1, "one table")],
         "train_seconds_ratio": [Stated(1.02, None, 10, 2, "one table")]}  # fmt: skip


@pytest.mark.parametrize(
    ("metrics", "charts", "further"),
    [(["A_T", "train_seconds", "prediction_share"], 2, {}), (["train_seconds"], 1, TIMES)],
)
def test_wide_tables_scroll_in_their_box(tmp_path, metrics, charts, further):
    text = EXPERIMENT.replace('["A_T", "F_T"]', json.dumps(metrics))
    experiment = make_experiment(tmp_path / "file", text)
    runs = fill(
        tmp_path / "runs", experiment, {"er": [20, 21], "er-las": [50, 51]}, stream="c-cifar10"
    )
    printed = {"A_T": [Stated(9.3, 0.7, 10, 1, "one table"), Stated(10.7, 0.4, 10, 1, "another")]}
    printed |= further
    background = Background(lambda cell, scale: printed, "the paper", ("A note.",), "a command")
    outcome = collect_outcome(experiment, find_runs([runs]).runs, background)
    report = write_tables(Contents("Tables", "Lead.", [outcome]), tmp_path / "report")
    widths = (1280, 390)
    page = tmp_path / "probe.html"
    frames = "".join(frame(report, width) for width in widths)
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8">{frames}')
    light = "--blink-settings=preferredColorScheme=1"
    dom = chromium(tmp_path, page, "--window-size=1400,1200", "--dump-dom", light)
    found = re.findall(r'<pre class="found">(.*?)</pre>', dom, re.S)
    assert [html.unescape(text) for text in found] == [
        f"width={width} charts={charts} ground=rgb(244, 246, 249) problems=[]" for width in widths
    ]


def test_dark_page_is_drawn(small_report, tmp_path):
    shot = tmp_path / "shot.png"
    dark = "--blink-settings=preferredColorScheme=0"
    chromium(tmp_path, small_report, "--window-size=1280,2600", f"--screenshot={shot}", dark)
    pixels = image.imread(shot)[..., :3]
    assert pixels.shape[:2] == (2600, 1280)
    assert pixels[-1, 0] * 255 == pytest.approx([14, 19, 25], abs=1)
    for name in ("m0", "m1", "m2", "heat"):
        colour = [int(DARK[name][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert (abs(pixels - colour) < 0.02).all(axis=-1).sum() > 500, name
