import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from evenstream.errors import DataError
from evenstream.report import load_runs, save_overview_png
from evenstream.report.charts.bars import share_fits, share_svg, share_top
from evenstream.report.charts.heatmap import ink_on, matrix_size, matrix_svg, opacity_of
from evenstream.report.charts.lines import accuracy_svg
from evenstream.report.charts.style import DARK, LIGHT, colour, line_style, marker
from evenstream.report.series import collect
from tests.helpers.report_samples import make_metrics, write_comparison, write_run

image = pytest.importorskip("matplotlib.image")


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def blend(front, back, opacity):
    mixed = [
        round(int(front[i : i + 2], 16) * opacity + int(back[i : i + 2], 16) * (1 - opacity))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in mixed)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast(colours):
    assert contrast(colours["ink"], colours["surface"]) >= 7
    assert contrast(colours["muted"], colours["surface"]) >= 4.5
    for k in range(8):
        assert contrast(colours[f"m{k}"], colours["surface"]) >= 2.9, k


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_numbers_in_heat_maps_can_be_read(colours):
    for percent in range(101):
        opacity = opacity_of(percent)
        ground = blend(colours["heat"], colours["surface"], opacity)
        assert contrast(colours[ink_on(opacity)], ground) >= 4, percent


def test_overview(comparison, tmp_path):
    path = save_overview_png(comparison, tmp_path / "out" / "overview.png")
    pixels = image.imread(path)
    assert pixels.shape[1] == 2500
    assert pixels[0, 0, :3] == pytest.approx([1, 1, 1])
    again = save_overview_png(comparison, tmp_path / "again.png")
    assert again.read_bytes() == path.read_bytes()
    dark = image.imread(save_overview_png(comparison, tmp_path / "dark.png", dark=True))
    assert dark[0, 0].mean() < 0.4


def test_overview_without_shares(tmp_path):
    metrics = {**make_metrics("er", 0), "prediction_share": None}
    path = save_overview_png(write_run(tmp_path / "run", metrics), tmp_path / "o.png")
    assert image.imread(path).shape[1] == 1250


def width_of_overview(folder, method):
    directory = write_comparison(folder / "c", {method: 0.3, "er": 0.6}, seeds=(0,))
    with Image.open(save_overview_png(directory, folder / "o.png")) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 10  # something is drawn
        return picture.width


@pytest.fixture(scope="module")
def usual_width(tmp_path_factory):
    return width_of_overview(tmp_path_factory.mktemp("plain"), "plain")


@pytest.mark.parametrize("name", ["$x_{$", "名前", "x" * 200, "a\nb"])
def test_odd_names_neither_break_nor_widen_pictures(tmp_path, name, usual_width):
    assert width_of_overview(tmp_path, name) == usual_width


def test_nothing_to_draw(tmp_path):
    directory = write_run(tmp_path / "run", make_metrics("er", 0, status="running"))
    with pytest.raises(DataError, match="no finished run"):
        save_overview_png(directory, tmp_path / "o.png")
    assert not (tmp_path / "o.png").exists()


def test_series_average_over_seeds(comparison):
    runs = load_runs(comparison)
    for series in collect(runs):
        mine = [run.metrics for run in runs if run.method == series.name]
        averages = np.array([m["average_accuracy"] for m in mine])
        assert series.accuracy == pytest.approx(averages.mean(axis=0))
        assert series.accuracy_std == pytest.approx(averages.std(axis=0, ddof=1))
        matrices = np.array([m["accuracy_matrix"] for m in mine], dtype=float)
        assert series.matrix == pytest.approx(matrices.mean(axis=0), nan_ok=True)
        assert series.share.sum() == pytest.approx(1)


def test_svg_holds_text_and_no_names(comparison):
    series = collect(load_runs(comparison))
    svg = accuracy_svg(series, (720, 340), "a")
    assert "Tasks learned so far" in svg and "<text" in svg
    assert "er-las" not in svg and "DejaVu" not in svg and "http" not in svg
    assert svg == accuracy_svg(series, (720, 340), "a")


def test_matrix_numbers_depend_on_room(tmp_path):
    texts = {}
    for n in (5, 20, 60):
        directory = write_run(tmp_path / str(n), make_metrics("er", 0, n_tasks=n))
        (series,) = collect(load_runs(directory))
        texts[n] = matrix_svg(series, "m")
        assert matrix_size(n)[0] <= 720
    assert "." in texts[5][texts[5].index("<text") :]
    assert texts[20].count("<text") >= 210
    assert texts[60].count("<text") < 100


def test_shares(tmp_path):
    directory = write_comparison(tmp_path / "c", {str(k): k / 8 for k in range(8)}, n_tasks=20)
    series = collect(load_runs(directory))
    assert not share_fits(series, 720)
    assert share_fits(series[:3], 720) and not share_fits(series[:4], 340)
    top = share_top(series)
    assert top >= max(100 * s.share.max() for s in series)
    assert share_svg(series[:1], (340, 180), "s", top)


def test_drawing_leaves_matplotlib_alone(single):
    code = f"""
import sys
from dataclasses import replace
import evenstream.report as report
assert "matplotlib" not in sys.modules, "matplotlib must be imported lazily"
assert "scipy" not in sys.modules
import matplotlib
matplotlib.rcParams["font.size"] = 31
before = dict(matplotlib.rcParams)
report.write_report({str(single)!r})
report.save_overview_png({str(single)!r}, {str(single / "o.png")!r})
assert dict(matplotlib.rcParams) == before
assert "matplotlib.pyplot" not in sys.modules
"""
    # With no backend named, reading all settings would itself import pyplot to choose one.
    environment = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, "-W", "error", "-c", code]
    subprocess.run(command, check=True, timeout=120, env=environment)


def test_more_methods_than_colours(comparison):
    series = [replace(collect(load_runs(comparison))[0], index=k) for k in range(24)]
    looks = [(colour(s), marker(s), str(line_style(s))) for s in series]
    assert len(set(looks)) == 24
    assert {name for name, _, _ in looks} <= set(LIGHT)
