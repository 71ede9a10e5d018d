"""`evenstream run`, `compare`, `resume` and `report`, from the command to the files."""

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from evenstream.cli import main as main_module
from evenstream.errors import EvenstreamError
from evenstream.interruption import Interrupted
from evenstream.learner.learner import Learner
from evenstream.run import environment, session
from evenstream.run.runner import resume_run
from tests.helpers.small_runs import StopAfter, outcome, read_events

SMALL = ["--batch", "4", "--replay-batch", "4", "--memory", "12", "--dtype", "float32"]


def test_run_and_report(run, table):
    status, out, err = run("run", "er-las:tau=2", "--stream", table, *SMALL, "--out", "first")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"er-las:tau=2 on {table}, seed 0"
    for part in (
        "network normalised-mlp",
        "memory 12",
        "batch 4 + 4 replayed",
        "adamw",
        "by label",
    ):
        assert part in lines[1]
    assert lines[2] == "er-las:tau=2  seed 0: from step 0 of 20"
    assert lines[-3].startswith("average accuracy A_T ")
    assert "20 steps" in lines[-3] or "20 steps" in lines[-4]
    assert lines[-1] == "results: first; `evenstream report first` turns them into a page"
    assert "\x1b" not in out
    config = tomllib.loads(Path("first/config.toml").read_text())
    assert config["stream"] == table
    assert config["memory"] == 12

    status, out, _ = run("report", "first")
    assert status == 0
    assert out == "report: first/report.html\n"
    assert "<html" in Path("first/report.html").read_text()
    assert run("report", "first", "--out", "page.html")[0] == 0
    assert Path("page.html").exists()


def fails_to_import():
    raise ImportError("libx.so: failed to map segment from shared object")


def finds_no_primitive():
    raise RuntimeError("could not create a primitive")  # oneDNN's words


@pytest.mark.parametrize(
    "need",
    [lambda: torch.empty(1 << 50), lambda: np.empty(1 << 50), fails_to_import, finds_no_primitive],
)
def test_too_little_memory_is_said_in_plain_words(run, table, monkeypatch, need):
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "end_task", lambda *_: need())
        status, _, err = run("run", "er", "--stream", table, *SMALL, "--out", "one")
    assert status == 2
    assert "too little memory" in err and "smaller" in err and "Traceback" not in err
    assert run("resume", "one")[0] == 0


def test_defaults_of_the_protocol_and_of_the_folder(run):
    status, out, _ = run("run", "fine-tune", "--seed", "3")
    assert status == 0
    assert out.splitlines()[0] == "fine-tune on c-digits, seed 3"
    assert "results: out/c-digits_fine-tune_seed-3" in out
    config = tomllib.loads(Path("out/c-digits_fine-tune_seed-3/config.toml").read_text())
    for name, value in {"batch": 10, "replay_batch": 10, "memory": 100, "lr": 0.1}.items():
        assert config[name] == value


def test_ewc_on_its_defaults_runs_to_the_end(run):
    status, out, err = run("run", "ewc", "--out", "ewc")
    assert (status, err) == (0, "")
    assert "146 steps" in out
    losses = [event["loss"] for event in read_events(Path("ewc")) if "loss" in event]
    assert len(losses) == 146
    assert np.isfinite(losses).all()


def test_inference_rule_of_all_methods_that_have_none(run, table, one_process):
    flags = ["--inference", "normalised:keep_bias=true", "--seeds", "1", "--out", "both"]
    status, _, err = run("compare", "er", "er@post-hoc", "--stream", table, *SMALL, *flags)
    assert (status, err) == (0, "")
    comparison = tomllib.loads(Path("both/comparison.toml").read_text())
    assert comparison["methods"] == ["er@normalised:keep_bias=true", "er@post-hoc"]
    status, _, err = run("run", "er", "--stream", "nowhere", "--inference", "???")
    assert status == 2 and "inference rule" in err and "post-hoc" in err


def test_offline_protocol(run, table):
    status, out, _ = run("run", "er", "--stream", table, "--protocol", "offline", "--epochs", "2")
    assert status == 0 and "2 epochs per task, memory 100" in out
    (folder,) = Path("out").iterdir()
    config = tomllib.loads((folder / "config.toml").read_text())
    assert (config["epochs"], config["memory"]) == (2, 100)
    assert json.loads((folder / "metrics.json").read_text())["epochs"] == 2
    run("report", str(folder))
    assert "2 epochs a task" in (folder / "report.html").read_text()
    assert run("run", "er", "--stream", table, "--epochs", "0")[0] == 2


def test_flags_reach_the_run(run, table):
    flags = {
        "--seed": 7, "--lr": 0.5, "--optimizer": "adamw", "--weight-decay": 0.01, "--tasks": 4,
        "--class-order": "seed", "--checkpoint-every": 3, "--network": "mlp", "--augment": "none",
        "--batch-schedule": "decrease", "--eval-every": 3, "--eval-images": 8,
    }  # fmt: skip
    words = [str(word) for pair in flags.items() for word in pair]
    status, _, err = run("run", "er", "--stream", table, *SMALL, *words, "--out", "o")
    assert (status, err) == (0, "")
    config = tomllib.loads(Path("o/config.toml").read_text())
    assert {f"--{k.replace('_', '-')}": v for k, v in config.items()}.items() >= flags.items()
    assert len(json.loads(Path("o/metrics.json").read_text())["tasks"]) == 4


def test_online_evaluation_is_stated_and_full_on_request(run, table):
    words = ["--stream", table, *SMALL, "--eval-every", "5"]
    status, out, err = run("run", "er", *words, "--eval-images", "8", "--out", "o")
    assert (status, err) == (0, "")
    found = json.loads(Path("o/metrics.json").read_text())
    statement = "on a fixed class-balanced subset of 8 of 20 test samples, every 5 steps"
    assert f"A_AUC {found['A_AUC']:.1f} % {statement}\n" in out
    status, out, _ = run("run", "er", *words, "--eval", "full", "--eval-future", "--out", "full")
    assert "% on all 20 test samples, every 5 steps\n" in out
    config = tomllib.loads(Path("full/config.toml").read_text())
    assert (config["eval_images"], config["eval_future"]) == (0, True)
    assert json.loads(Path("full/metrics.json").read_text())["FWT"] is not None


def test_data_is_loaded_once(run, table, monkeypatch):
    import evenstream.data

    loads = []
    real = evenstream.data.load_dataset

    def load(*arguments, **options):
        loads.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(evenstream.data, "load_dataset", load)
    assert run("run", "er", "--stream", table, *SMALL, "--out", "o")[0] == 0
    assert len(loads) == 1


def test_relative_paths_and_home(run, table, monkeypatch):
    """The run can be resumed from another folder."""
    Path("mine.npz").write_bytes(Path(table).read_bytes())
    monkeypatch.setenv("HOME", str(Path.cwd()))
    for number, name in enumerate(("mine.npz", "~/mine.npz", "./mine.npz")):
        assert run("run", "er", "--stream", name, *SMALL, "--out", f"o{number}")[0] == 0
        config = tomllib.loads(Path(f"o{number}/config.toml").read_text())
        assert config["stream"] == str(Path("mine.npz").absolute())


def test_brackets_in_names_are_no_markup(run, table):
    Path("[red] x").mkdir()
    stream = Path("[red] x/data [bold].npz")
    stream.write_bytes(Path(table).read_bytes())
    status, out, _ = run("run", "er", "--stream", stream, *SMALL, "--out", "[red] x/run")
    assert status == 0
    assert f"er on {stream.absolute()}, seed 0" in out
    assert "results: [red] x/run" in out


def test_images_that_cannot_be_read(run):
    from PIL import Image

    for part, number in (("train", 6), ("test", 3)):
        for shade, name in ((40, "dark"), (200, "light")):
            folder = Path("pictures", part, name)
            folder.mkdir(parents=True)
            for index in range(number):
                Image.new("RGB", (8, 8), (shade, shade, index)).save(folder / f"{index}.png")
    Path("pictures/train/dark/3.png").write_bytes(b"not a picture")
    words = ["--stream", "pictures", "--tasks", "2", "--batch", "2", "--network", "convnet"]
    status, _, err = run("run", "er", *words, "--out", "o")
    assert status == 2
    assert "3.png" in err
    assert f'with corrupt = "skip" in {Path("o", "config.toml")}, continue with `evenstream' in err
    config = Path("o/config.toml")
    config.write_text(config.read_text().replace('corrupt = "stop"', 'corrupt = "skip"'))
    with pytest.warns(UserWarning, match=r"left out a sample that cannot be read: .*3\.png"):
        status, out, _ = run("resume", "o")
    assert status == 0
    assert "left out as unreadable: 1 training sample\n" in out
    assert json.loads(Path("o/metrics.json").read_text())["samples"] == 11


# ---- resume --------------------------------------------------------------------------------------


@pytest.fixture
def stopped(run, table, monkeypatch):
    """A run that was stopped after 13 of its 20 steps."""

    class At13:
        def __enter__(self):
            return StopAfter(13)

        def __exit__(self, *error):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(session, "stop_on_signal", At13)
        words = ["--stream", table, *SMALL, "--checkpoint-every", "4", "--out", "my run"]
        status, _, err = run("run", "er", *words)
    assert status == 130
    assert err == "stopped at step 13 and saved; continue with `evenstream resume 'my run'`\n"
    return Path("my run")


def test_resume(run, table, stopped):
    status, out, err = run("resume", stopped)
    assert (status, err) == (0, "")
    assert "er  seed 0: from step 13 of 20" in out
    words = ["--stream", table, *SMALL, "--checkpoint-every", "4", "--out", "whole"]
    assert run("run", "er", *words)[0] == 0
    assert outcome(stopped) == outcome(Path("whole"))
    status, out, err = run("resume", stopped)
    assert (status, err) == (0, "")
    assert "this run is finished; nothing to do" in out
    assert "average accuracy A_T" in out


def test_resume_before_the_first_checkpoint(run, stopped):
    for path in (stopped / "checkpoint").iterdir():
        path.unlink()
    status, out, err = run("resume", stopped)
    assert (status, err) == (0, "")
    assert "stopped before its first checkpoint, so it starts over" in out
    assert "from step 0 of 20" in out


def test_resume_with_damaged_checkpoints(run, stopped):
    newest, before = sorted((stopped / "checkpoint").glob("*.json"), reverse=True)
    newest.write_text(newest.read_text().replace("er", "re", 1))
    with pytest.warns(UserWarning, match="continuing from the checkpoint before it"):
        status, out, _ = run("resume", stopped)
    assert status == 0
    assert "from step 12 of 20" in out

    (stopped / "metrics.json").unlink()
    for path in (stopped / "checkpoint").glob("*.json"):
        path.write_text("{}")
    status, _, err = run("resume", stopped)
    assert status == 2
    assert "no usable checkpoint" in err
    assert "To make the run again from its start, remove" in err
    assert before.name not in err  # it was replaced by then


def test_ctrl_c_while_a_run_works(run, table, monkeypatch):
    """The real signal, sent by the process to itself."""
    real = Learner.learn

    def learn(learner, x, labels, **options):
        result = real(learner, x, labels, **options)
        if learner.step == 6 and len(labels) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "learn", learn)
        status, _, err = run("run", "er", "--stream", table, *SMALL, "--out", "o")
    assert status == 130
    assert "stopped at step 6 and saved; continue with `evenstream resume o`" in err
    assert resume_run(Path("o"))["steps"] == 20


def test_ctrl_c_twice(run, table, monkeypatch):
    def learn(learner, x, labels):
        raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "learn", learn)
    status, _, err = run("run", "er", "--stream", table, *SMALL, "--out", "o")
    assert (status, err) == (130, "stopped\n")


# ---- compare -------------------------------------------------------------------------------------


def test_compare(run, table, one_process):
    words = ["--stream", table, *SMALL, "--seeds", "2", "--out", "c"]
    status, out, err = run("compare", "fine-tune", "er", "er-las", *words)
    assert (status, err) == (0, "")
    assert f"fine-tune, er, er-las on {table}, 2 seeds" in out
    assert "er-las seed 1: A_T" in out
    assert "report: c/report.html" in out
    assert "minus" in out
    summary = json.loads(Path("c/summary.json").read_text())
    for method in ("fine-tune", "er", "er-las"):
        accuracies = [
            json.loads(Path(f"c/runs/{method}/seed-{seed}/metrics.json").read_text())["A_T"]
            for seed in (0, 1)
        ]
        assert summary[method]["A_T"]["values"] == accuracies
        assert summary[method]["A_T"]["mean"] == pytest.approx(sum(accuracies) / 2)
        assert summary[method]["A_T"]["std"] == pytest.approx(np.std(accuracies, ddof=1))
        assert summary[method]["F_T"]["mean"] is not None
    assert "<html" in Path("c/report.html").read_text()

    # Again: everything is there already, and the same page comes out.
    status, out, err = run("resume", "c")
    assert (status, err) == (0, "")
    assert "all runs of this comparison are finished" in out
    assert json.loads(Path("c/summary.json").read_text()) == summary
    status, _, err = run("compare", "er", "er-las", *words)
    assert status == 2
    assert "c already holds a comparison; continue it with `evenstream resume c`" in err


def test_compare_states_the_subset(run, table, one_process):
    words = ["--stream", table, *SMALL, "--eval-every", "5", "--eval-images", "8"]
    status, out, err = run("compare", "er", "er-las", *words, "--seeds", "1", "--out", "c")
    assert (status, err) == (0, "")
    statement = "A_AUC on a fixed class-balanced subset of 8 of 20 test samples, every 5 steps\n"
    assert out.count(statement) == 1
    assert json.loads(Path("c/summary.json").read_text())["er"]["A_AUC"]["mean"] > 0


def test_compare_names_its_folder(run, table, one_process):
    words = ["--stream", table, *SMALL, "--seeds", "1"]
    status, _, _ = run("compare", "er", "er-las:tau=2", *words)
    assert status == 0
    assert Path("out/table.npz_er_er-las_tau_2/summary.json").exists()


def test_compare_in_which_runs_fail(run, table, monkeypatch, one_process):
    """The others are summed up all the same; the exit status and a line say that some failed."""
    from evenstream.run import compare as compare_module
    from evenstream.run.workers import Answer

    def work_off(jobs, work, n_workers, stop):
        while jobs:
            job = jobs.popleft()
            bad = job[0].method in failing
            yield job, Answer(error="[no] luck") if bad else Answer(result=work(job, stop))

    monkeypatch.setattr(compare_module, "work_off", work_off)
    words = ["--stream", table, *SMALL, "--seeds", "1"]
    failing = {"er", "er-las"}
    status, out, err = run("compare", "er", "er-las", *words, "--out", "all fail")
    assert status == 1
    assert "er seed 0: failed: [no] luck" in out
    assert err == "error: 2 of 2 runs failed; `evenstream resume 'all fail'` tries again\n"
    failing = {"er"}
    status, out, err = run("resume", "all fail")
    assert status == 1
    assert "1 of 2 runs failed" in err
    assert "er-las" in json.loads(Path("all fail/summary.json").read_text())
    failing = set()
    status, out, err = run("resume", "all fail")
    assert (status, err) == (0, "")
    assert "er" in json.loads(Path("all fail/summary.json").read_text())


# ---- the frame -----------------------------------------------------------------------------------


def test_warnings_are_written_for_users(run, monkeypatch):
    def warn():
        # What Python does with a warning; pytest would catch a real one.
        text = warnings.formatwarning("mind the gap", UserWarning, "learner.py", 7)
        print(text, end="", file=sys.stderr)
        return 0

    monkeypatch.setitem(main_module.COMMANDS, "methods", warn)
    before = warnings.formatwarning
    assert run("methods") == (0, "", "warning: mind the gap\n")
    assert warnings.formatwarning is before


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (EvenstreamError("no such thing"), 2, "error: no such thing\n"),
        (OSError(28, "No space left on device"), 2, "error: [Errno 28] No space left on device\n"),
        (Interrupted("saved"), 130, "saved\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
    ],
)
def test_exit_statuses(run, monkeypatch, error, status, message):
    def fail():
        raise error

    monkeypatch.setitem(main_module.COMMANDS, "methods", fail)
    assert run("methods") == (status, "", message)


@pytest.fixture
def no_repository(tmp_path, monkeypatch):
    """The sources lie in a folder without `.git`, and there is no network."""
    place = tmp_path / "copy" / "src" / "evenstream" / "run" / "environment.py"
    monkeypatch.setattr(environment, "__file__", str(place))
    monkeypatch.setattr(socket.socket, "connect", None)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    environment.source_commit.cache_clear()
    yield tmp_path / "copy"
    environment.source_commit.cache_clear()


def test_a_copy_of_the_sources_runs_without_git_and_without_a_network(run, no_repository):
    status, _, err = run("run", "er-las", "--stream", "c-digits", "--lr", "0.3", "--out", "run")
    assert (status, err) == (0, "")
    assert json.loads(Path("run/env.json").read_text())["commit"] is None


def test_the_commit_is_that_of_the_sources_whatever_git_is_told(no_repository, monkeypatch):
    def git(*words):
        command = ["git", "-C", no_repository, "-c", "user.name=x", "-c", "user.email=x", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    no_repository.mkdir()
    git("init")
    assert environment.source_commit() is None, "nothing is committed"
    environment.source_commit.cache_clear()
    git("commit", "--allow-empty", "--message", "first")
    expected = git("describe", "--always")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook of another repository
    assert environment.source_commit() == expected
