"""Comparisons: all runs, whatever happens to their processes."""

import functools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from evenstream.cli.main import main
from evenstream.errors import EvenstreamError, InputError
from evenstream.files import exclusive
from evenstream.interruption import Interrupted
from evenstream.report.comparison.summary import write_summary
from evenstream.run import compare as compare_module
from evenstream.run.compare import Comparison, compare, run_folder
from evenstream.run.config import RunConfig
from evenstream.run.folder import read_metrics
from evenstream.run.many import ATTEMPTS
from evenstream.run.runner import start_run
from evenstream.run.workers import Answer
from tests.helpers import worker_jobs
from tests.helpers.small_runs import outcome, save_table, small_config


def comparison_of(table, *methods, seeds=2, **options):
    methods = methods or ("er", "er-las")
    return Comparison(methods, seeds, small_config(table, methods[0], **options))


def claimed(folder, comparison):
    folder.mkdir()
    comparison.write(folder)
    return folder


def make_alone(comparison, folder):
    """The same runs, one after the other in this process."""
    for config in comparison.runs():
        start_run(config, run_folder(folder, config))
    return summary_of(comparison, folder)


def summary_of(comparison, folder):
    write_summary(comparison, folder)
    return json.loads((folder / "summary.json").read_text())


def without_seconds(summary):
    return json.loads(
        json.dumps(summary),
        object_hook=lambda entry: {k: v for k, v in entry.items() if not k.endswith("_seconds")},
    )


def test_runs_and_folders(table, tmp_path):
    comparison = comparison_of(table, "er", "er-las:tau=2,window=5", seeds=2, seed=3)
    runs = list(comparison.runs())
    assert [(run.method, run.seed) for run in runs] == [
        ("er", 3), ("er-las:tau=2,window=5", 3), ("er", 4), ("er-las:tau=2,window=5", 4)
    ]  # fmt: skip
    assert len({run_folder(tmp_path, run) for run in runs}) == 4
    last = run_folder(tmp_path, runs[-1])
    assert str(last.relative_to(tmp_path)) == "runs/er-las_tau_2_window_5/seed-4"


@pytest.mark.parametrize(
    ("methods", "seeds", "message"),
    [
        ((), 2, "at least one method"),
        (("er", "er"), 2, "named twice"),
        (("er",), 0, "seeds must be 1 or more"),
    ],
)
def test_impossible_comparisons(table, methods, seeds, message):
    with pytest.raises(InputError, match=message):
        Comparison(methods, seeds, small_config(table))


def test_each_method_has_the_settings_that_it_is_made_for(table, tmp_path):
    configs = [small_config(table, "er"), small_config(table, "slda", network="identity")]
    comparison = Comparison.of(configs, 2, None)
    found = {(run.method, run.seed): run.network for run in comparison.runs()}
    assert found == {
        ("er", 0): "mlp", ("slda", 0): "identity", ("er", 1): "mlp", ("slda", 1): "identity",
    }  # fmt: skip
    comparison.write(tmp_path)
    assert Comparison.read(tmp_path) == comparison
    path = tmp_path / "comparison.toml"
    text = path.read_text()
    for wrong in ('own = "x"', "[own]\nslda = 1", "[own.slda]\nnetwork = 1"):
        path.write_text(text[: text.index("[own")] + wrong)
        with pytest.raises(EvenstreamError, match=r"own must be a table|network must be of type"):
            Comparison.read(tmp_path)


def test_written_and_read(table, tmp_path):
    comparison = comparison_of(table, "er-las:tau=inf", "joint", seeds=7, class_order="seed")
    comparison.write(tmp_path)
    assert Comparison.read(tmp_path) == comparison
    path = tmp_path / "comparison.toml"
    text = path.read_text()
    for old, new, message in (
        ("seeds = 7", "", "seeds must be a whole number, not None"),
        ("seeds = 7", 'seeds = "7"', "seeds must be a whole number"),
        ("methods = [", "methods = [4,", "methods must be a list of methods"),
        ("memory = 12", "memory = 1.5", "memory must be of type int"),
        ("memory = 12", "", "no entry for: memory"),
        ("memory = 12", "memory = 12\nsecret = 1", "unknown entries: secret"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(EvenstreamError, match=message):
            Comparison.read(tmp_path)


# ---- the logic, with workers that are played -----------------------------------------------------


class Play:
    """In place of `work_off`: answers as told; a run without a word is made in this process."""

    def __init__(self, *told):
        self.told = list(told)
        self.asked = []

    def __call__(self, jobs, work, n_workers, stop):
        while jobs:
            config, folder = jobs.popleft()
            self.asked.append((config.method, config.seed))
            if self.told:
                yield (config, folder), self.told.pop(0)
            else:
                yield (config, folder), Answer(result=work((config, folder), stop))


class Heard:
    def __init__(self):
        self.lines = []

    def __call__(self, config, metrics, error):
        self.lines.append((config.method, config.seed, metrics and metrics["status"], error))


def test_killed_runs_are_tried_again_and_failures_are_told(table, tmp_path, monkeypatch):
    comparison = comparison_of(table)
    play, heard = Play(Answer(), Answer(error="no luck")), Heard()
    monkeypatch.setattr(compare_module, "work_off", play)
    out = claimed(tmp_path / "c", comparison)
    assert compare(comparison, out, 2, heard) == ["er-las seed 0: no luck"]
    assert play.asked == [("er", 0), ("er-las", 0), ("er", 1), ("er-las", 1), ("er", 0)]
    assert ("er-las", 0, None, "no luck") in heard.lines
    assert len(heard.lines) == 4
    # The next time only the one that failed is made.
    play.asked.clear()
    assert compare(comparison, out, 2, heard) == []
    assert play.asked == [("er-las", 0)]
    summary = summary_of(comparison, out)
    assert without_seconds(summary) == without_seconds(make_alone(comparison, tmp_path / "alone"))


def test_a_run_that_always_kills_its_process_is_given_up(table, tmp_path, monkeypatch):
    comparison = comparison_of(table, "er", seeds=1)
    monkeypatch.setattr(compare_module, "work_off", Play(*[Answer()] * 9))
    errors = compare(comparison, claimed(tmp_path / "c", comparison), 1, Heard())
    assert errors == [f"er seed 0: its process was killed {ATTEMPTS + 1} times"]


def test_stopped_before_all_are_done(table, tmp_path, monkeypatch):
    def stopped(jobs, work, n_workers, stop):
        yield jobs.popleft(), Answer()

    comparison = comparison_of(table)
    monkeypatch.setattr(compare_module, "work_off", stopped)
    with pytest.raises(Interrupted, match="stopped and saved; continue with `evenstream resume"):
        compare(comparison, claimed(tmp_path / "c", comparison), 1, Heard())


def test_runs_of_other_settings_are_not_taken_for_these(table, tmp_path, monkeypatch):
    comparison = comparison_of(table, "er", seeds=1)
    monkeypatch.setattr(compare_module, "work_off", Play())
    out = claimed(tmp_path / "c", comparison)
    start_run(small_config(table, "er", memory=3), run_folder(out, next(comparison.runs())))
    with pytest.raises(EvenstreamError, match="holds a run with other settings"):
        compare(comparison, out, 1, Heard())


def test_two_processes_do_not_make_the_same_comparison(table, tmp_path, monkeypatch):
    comparison = comparison_of(table)
    out = claimed(tmp_path / "c", comparison)
    monkeypatch.setattr(compare_module, "exclusive", functools.partial(exclusive, patience=0.05))
    with (
        exclusive(out / "comparison.toml"),
        pytest.raises(EvenstreamError, match="another process is working in"),
    ):
        compare(comparison, out, 1, Heard())


# ---- real processes ------------------------------------------------------------------------------


def test_run_goes_on_from_its_checkpoint_when_its_worker_is_killed(table, tmp_path, monkeypatch):
    comparison = comparison_of(table, "er-las", seeds=1)
    monkeypatch.setattr(compare_module, "make_or_finish", worker_jobs.killed_at_step_9)
    out = claimed(tmp_path / "c", comparison)
    heard = Heard()
    assert compare(comparison, out, 1, heard) == []
    assert heard.lines == [("er-las", 0, "finished", None)]
    start_run(comparison.settings, tmp_path / "alone")
    (config,) = comparison.runs()
    assert outcome(run_folder(out, config)) == outcome(tmp_path / "alone")


def test_ctrl_c_and_resume(tmp_path, capsys, monkeypatch):
    """Ctrl-C in a terminal goes to the whole process group, workers included."""
    stream = save_table(tmp_path / "long.npz", per_class=160)
    out = tmp_path / "c"
    flags = ["--stream", str(stream), "--seeds", "1", "--jobs", "1", "--out", str(out)]
    flags += ["--batch", "4", "--replay-batch", "4", "--memory", "20", "--dtype", "float32"]
    command = [sys.executable, "-m", "evenstream.cli.main", "compare", "er", "er-las", *flags]
    process = subprocess.Popen(
        [*command, "--checkpoint-every", "20"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        give_up = time.monotonic() + 60
        while not list(out.glob("runs/*/*/checkpoint/*.json")):
            assert time.monotonic() < give_up
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        said, complaint = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said + complaint
    assert complaint.strip() == f"stopped and saved; continue with `evenstream resume {out}`"
    assert "Traceback" not in said
    assert not (out / "summary.json").exists()
    comparison = Comparison.read(out)
    statuses = []
    for config in comparison.runs():
        found = read_metrics(run_folder(out, config))
        statuses.append(found and found["status"])
    assert statuses == ["unfinished", None]

    monkeypatch.setattr(compare_module, "work_off", Play())  # without processes it is quicker
    assert main(["resume", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    expected = make_alone(comparison, tmp_path / "alone")
    assert without_seconds(summary) == without_seconds(expected)
    for config in comparison.runs():
        assert outcome(run_folder(out, config)) == outcome(run_folder(tmp_path / "alone", config))
    assert RunConfig.read(run_folder(out, config)) == config
    assert "er-las seed 0: A_T" in capsys.readouterr().out
    assert (out / "report.html").stat().st_size > 1000
