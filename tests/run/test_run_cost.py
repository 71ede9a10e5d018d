"""Image passes and CPU time of runs, and the budget that reports hold methods to."""

import json

import pytest

from evenstream.cli.main import main
from evenstream.errors import EvenstreamError, InputError
from evenstream.report.comparison.summary import write_summary
from evenstream.run.compare import Comparison, run_folder
from evenstream.run.position import Position
from evenstream.run.runner import start_run
from evenstream.streams import open_stream
from evenstream.text import read_budget
from tests.helpers.small_runs import read_events, small_config

DIGITS = "c-digits:fraction=0.05"
"""Its protocol has as many replayed as arriving rows: er-las takes 6 passes a sample."""


@pytest.mark.parametrize(
    ("method", "options", "passes_of_a_row"),
    [("er-las", {}, 3), ("er-las@ema", {}, 3), ("er", {"steps": 2, "step_rows": "repeat"}, 3)],
)
def test_a_run_counts_its_passes(tmp_path, method, options, passes_of_a_row):
    metrics = start_run(small_config(DIGITS, method, **options), tmp_path / "run")
    rows = sum(event["rows"] for event in read_events(tmp_path / "run") if "rows" in event)
    assert metrics["image_passes"] == pytest.approx(passes_of_a_row * rows)
    samples = metrics["samples"]
    usual = start_run(small_config(DIGITS, "er-las", batch=10, replay_batch=10), tmp_path / "usual")
    share = metrics["image_passes"] / usual["image_passes"]
    assert metrics["relative_cost"] == pytest.approx(share)
    # the first batch has no known class to ask for; in one step of eight the rows' familiarity
    familiar = samples // 4 // 8 * 4
    assert metrics["image_passes_prequential"] == familiar + (samples - 4 if "ema" in method else 0)
    assert 0 < metrics["cpu_seconds"] < 60


@pytest.mark.parametrize(
    ("stream", "epochs"),
    [
        (DIGITS, 1),
        (DIGITS, 2),
        ("b-digits:fraction=0.3", 2),
        ("r-digits:fraction=0.15", 1),
        ("d-digits:fraction=0.15", 1),
    ],
)
def test_er_las_costs_what_er_las_costs(tmp_path, stream, epochs):
    """Short batches replay as much as others, and the first step has nothing to replay."""
    usual = open_stream(stream).protocol
    sizes = {"batch": usual.batch, "replay_batch": usual.replay_batch, "memory": usual.memory}
    metrics = start_run(
        small_config(stream, "er-las", epochs=epochs, tasks=None, **sizes), tmp_path / "run"
    )
    assert metrics["relative_cost"] == pytest.approx(1)


def test_work_at_task_ends_counts(tmp_path):
    """E2E fine-tunes after each task; its teacher's forwards count, too."""
    options = {"epochs": 2}
    metrics = start_run(small_config(DIGITS, "e2e", **options), tmp_path / "run")
    rows = sum(event["rows"] for event in read_events(tmp_path / "run") if "rows" in event)
    assert metrics["image_passes"] > 3 * rows


def test_a_run_begun_before_passes_were_counted_has_none():
    saved = Position().state()
    for name in ("passes", "passes_aside", "cpu_seconds"):
        del saved[name]
    position = Position.from_state({**saved, "samples": 4})
    position.add_cost(10, 1, 1)
    assert (position.passes, position.passes_aside, position.cpu_seconds) == (None, None, None)


def test_methods_over_the_budget_are_marked(tmp_path, capsys):
    comparison = Comparison(("er-las", "mir"), 1, small_config(DIGITS), budget=1.1)
    folder = tmp_path / "both"
    folder.mkdir()
    comparison.write(folder)
    assert Comparison.read(folder) == comparison
    for config in comparison.runs():
        start_run(config, run_folder(folder, config))
    summary = write_summary(comparison, folder)
    assert [summary[m].over_budget for m in ("er-las", "mir")] == [False, True]
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_text().count("over budget") == 1
    assert main(["report", str(folder), "--budget", "9x", "--out", str(folder / "other.html")]) == 0
    assert "over budget" not in (folder / "other.html").read_text()
    (folder / "comparison.toml").write_text(
        (folder / "comparison.toml").read_text().replace("budget = 1.1", 'budget = "much"')
    )
    with pytest.raises(EvenstreamError, match="budget must be a number"):
        Comparison.read(folder)
    capsys.readouterr()


def test_compare_takes_a_budget(tmp_path, capsys):
    arguments = f"--stream {DIGITS} --tasks 2 --seeds 1 --jobs 1 --memory 12 --budget 0.5x"
    assert main(["compare", "er", *arguments.split(), "--out", str(tmp_path / "out")]) == 0
    assert "over budget" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["er"]["over_budget"]


@pytest.mark.parametrize(("text", "times"), [("1.1x", 1.1), ("2", 2.0), (" 1x ", 1.0)])
def test_budgets_as_they_are_written(text, times):
    assert read_budget(text) == times


@pytest.mark.parametrize("text", ["", "x", "0x", "-1x", "much", "inf", "nanx"])
def test_what_is_no_budget(text):
    with pytest.raises(InputError, match=r"1\.1x"):
        read_budget(text)
