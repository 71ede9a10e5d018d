"""Runs whose checkpoints or settings were damaged or changed, or that somebody else works on."""

import functools
import json

import numpy as np
import pytest

from evenstream.errors import CheckpointError, EvenstreamError
from evenstream.files import exclusive
from evenstream.interruption import Interrupted
from evenstream.learner.learner import Learner
from evenstream.run import runner, session
from evenstream.run.config import RunConfig
from evenstream.run.runner import resume_run, start_run
from tests.helpers.damage import alter_newest
from tests.helpers.small_runs import StopAfter, outcome, small_config


def damage(out, which):
    """Shorten the newest checkpoints' tensors."""
    for path in sorted((out / "checkpoint").glob("*.safetensors"))[which]:
        path.write_bytes(path.read_bytes()[:-10])


def test_damaged_checkpoint_falls_back_to_the_one_before(whole, tmp_path):
    config, expected = whole("table")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "run", stop=StopAfter(16))
    damage(tmp_path / "run", slice(-1, None))
    seen = []

    class Progress(runner.Progress):
        def start(self, method, seed, steps, done):
            seen.append((method, seed, steps, done))

    with pytest.warns(UserWarning, match="continuing from the checkpoint before it"):
        resume_run(tmp_path / "run", Progress())
    assert seen == [("er-las", 0, 20, 14)]
    assert outcome(tmp_path / "run") == expected


def test_both_checkpoints_damaged(whole, tmp_path):
    config, expected = whole("table")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "run", stop=StopAfter(16))
    events = (tmp_path / "run" / "events.jsonl").read_text()
    damage(tmp_path / "run", slice(None))
    with pytest.raises(CheckpointError) as caught:
        resume_run(tmp_path / "run")
    message = str(caught.value)
    assert "no usable checkpoint" in message
    assert "step-14" in message
    assert "step-16" in message
    assert f"remove {tmp_path / 'run' / 'checkpoint'}" in message
    assert (tmp_path / "run" / "events.jsonl").read_text() == events
    # and what it advises works
    for path in (tmp_path / "run" / "checkpoint").iterdir():
        path.unlink()
    resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == expected


WRONG = {
    "no position": lambda saved: saved.pop("position"),
    "position": lambda saved: saved["position"].update(task="x"),
    "measures": lambda saved: saved["position"].update(prequential=None),
    "learner": lambda saved: saved["learner"]["memory"].pop("size"),
    "settings": lambda saved: saved.update(config=3),
    "data": lambda saved: saved.update(data=[]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_checkpoint_falls_back_to_the_one_before(whole, tmp_path, wrong):
    config, expected = whole("table")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "run", stop=StopAfter(16))
    alter_newest(tmp_path / "run" / "checkpoint", WRONG[wrong])
    with pytest.warns(UserWarning, match=r"its entry '.*continuing from the checkpoint before it"):
        resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == expected


def test_the_only_checkpoint_is_wrong(table, tmp_path):
    with pytest.raises(Interrupted):
        start_run(small_config(table), tmp_path / "run", stop=StopAfter(3))
    alter_newest(tmp_path / "run" / "checkpoint", WRONG["learner"])
    with pytest.raises(CheckpointError, match=r"'memory' cannot be used: it lacks 'size'.*remove "):
        resume_run(tmp_path / "run")


def test_checkpoint_of_something_else(table, tmp_path):
    with pytest.raises(Interrupted):
        start_run(small_config(table), tmp_path / "run", stop=StopAfter(3))
    learner = Learner("er", dtype="float32")
    learner.learn(np.zeros((2, 5), dtype=np.float32), [0, 1])
    learner.save(tmp_path / "run" / "checkpoint")
    with pytest.raises(CheckpointError, match="does not hold a run"):
        resume_run(tmp_path / "run")


def edit(out, name, value):
    path = out / "config.toml"
    lines = [
        f"{name} = {value}" if line.startswith(f"{name} = ") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines))


def test_settings_changed_under_a_run(whole, tmp_path):
    config, expected = whole("table")
    with pytest.raises(Interrupted):
        start_run(config, tmp_path / "run", stop=StopAfter(12))
    before = (tmp_path / "run" / "config.toml").read_text()
    edit(tmp_path / "run", "memory", 50)
    with pytest.raises(CheckpointError, match="memory was 12 when the run was saved and is 50 now"):
        resume_run(tmp_path / "run")
    (tmp_path / "run" / "config.toml").write_text(before)
    edit(tmp_path / "run", "checkpoint_every", 2)  # this one is free to change
    resume_run(tmp_path / "run")
    found = outcome(tmp_path / "run")
    assert {**found, "config": before} == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("memory", '"many"', "memory must be of type int, not 'many'"),
        ("memory", "true", "memory must be of type int, not True"),
        ("class_order", '"random"', "class_order must be one of label, seed"),
        ("threads", "0", "threads must be 1 or more"),
        ("lr", "[1]", "lr must be of type float"),
        ("lr", "= =", "cannot be read"),
        ("lr", "9" * 400, "lr must be a finite number"),
        ("lr", "[" * 3000, "cannot be read"),
        ("memory", "9" * 40, "memory must be .* at most"),
        ("threads", "9" * 40, "threads must be .* at most"),
        ("device", '"meta"', "device 'meta' cannot be used here"),
        ("stream", '"\\u0000.csv"', "no NUL character"),
    ],
)
def test_damaged_config(table, tmp_path, name, value, message):
    small_config(table).write(tmp_path)
    edit(tmp_path, name, value)
    with pytest.raises(EvenstreamError, match=message):
        resume_run(tmp_path)


def test_config_with_other_entries(table, tmp_path):
    config = small_config(table)
    config.write(tmp_path)
    path = tmp_path / "config.toml"
    text = path.read_text()
    path.write_text(text + "colour = 3\n")
    with pytest.raises(EvenstreamError, match="unknown entries: colour"):
        RunConfig.read(tmp_path)
    path.write_text("".join(line for line in text.splitlines(True) if "memory" not in line))
    with pytest.raises(EvenstreamError, match="no entry for: memory"):
        RunConfig.read(tmp_path)
    path.write_text(text.replace("lr = 0.05", "lr = 1"))
    assert RunConfig.read(tmp_path).lr == 1.0
    path.write_text(text)
    assert RunConfig.read(tmp_path) == config
    path.unlink()
    with pytest.raises(EvenstreamError, match=r"holds no run: there is no config\.toml"):
        RunConfig.read(tmp_path)


def test_two_processes_do_not_work_in_the_same_folder(table, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "exclusive", functools.partial(exclusive, patience=0.05))
    with pytest.raises(Interrupted):
        start_run(small_config(table), tmp_path / "run", stop=StopAfter(3))
    before = outcome(tmp_path / "run")
    with (
        exclusive(tmp_path / "run" / "config.toml"),
        pytest.raises(EvenstreamError, match="another process is working in"),
    ):
        resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == before
    resume_run(tmp_path / "run")


def test_a_damaged_log_keeps_its_good_lines(whole, tmp_path):
    config, expected = whole("table")
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        start_run(config, out, stop=StopAfter(16))
    log = out / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    lost = [lines[2], lines[5]]
    lines[2], lines[5] = "\x00\x00\n", '{"step": [6], "task": 0}\n'
    log.write_text("".join(lines))
    with pytest.warns(UserWarning, match=r"2 of the steps up to 16 are missing \(3, 6\)"):
        resume_run(out)
    found = outcome(out)
    steps = [json.loads(line)["step"] for line in lost]
    events = [e for e in expected["events"] if e["step"] not in steps]
    assert found == {**expected, "events": events}


DAMAGED = {
    "status alone": '{"status": "finished"}',
    "words": '{"status": "finished", "A_T": "high"}',
    "list": "[1]",
    "deep": "[" * 20_000,
    "empty": "",
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("name", ["A_T", "F_T", "steps", "dtype", "online", "skipped_test"])
def test_damaged_entries_of_metrics_are_made_again(whole, tmp_path, name):
    config, expected = whole("table")
    out = tmp_path / "run"
    start_run(config, out)
    found = json.loads((out / "metrics.json").read_text())
    (out / "metrics.json").write_text(json.dumps({**found, name: ["high"]}))
    resume_run(out)
    assert outcome(out) == expected
    if name not in ("online", "skipped_test"):  # runs of earlier versions have none
        found.pop(name)
        (out / "metrics.json").write_text(json.dumps(found))
        resume_run(out)
        assert outcome(out) == expected


@pytest.mark.parametrize("content", ["[]", "[" * 20_000, '{"resumed": 3}', ""])
def test_a_damaged_record_of_the_machine_is_begun_anew(whole, tmp_path, content):
    config, expected = whole("table")
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        start_run(config, out, stop=StopAfter(16))
    (out / "env.json").write_text(content)
    resume_run(out)
    assert outcome(out) == expected and "torch" in json.loads((out / "env.json").read_text())


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_metrics_are_made_again(whole, tmp_path, kind):
    config, expected = whole("table")
    out = tmp_path / "run"
    start_run(config, out)
    content = DAMAGED[kind]
    (out / "metrics.json").write_bytes(content if isinstance(content, bytes) else content.encode())  # type: ignore[attr-defined]
    assert resume_run(out)["status"] == "finished"
    assert outcome(out) == expected
