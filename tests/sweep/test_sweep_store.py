"""The names of runs, and what a store knows of them."""

import dataclasses
import hashlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstream.errors import EvenstreamError
from evenstream.files import exclusive
from evenstream.run.config import RunConfig
from evenstream.run.many import Ended
from evenstream.run.metrics_file import Metrics
from evenstream.run.sameness import NO_RESULT_DEPENDS_ON, canonical, run_key
from evenstream.sweep.store import LOCK, Store
from tests.helpers.small_runs import finished, small_config

CONFIG = small_config("c-digits", "er-las")
OTHERS = {
    "method": "er", "stream": "d-digits", "seed": 1, "memory": 13, "batch": 5, "replay_batch": 6,
    "lr": 0.06, "network": "convnet", "augment": "crop", "weights": "/w.pt",
    "weights_sha256": "ab", "optimizer": "adam", "momentum": 0.9, "weight_decay": 0.1,
    "device": "cuda", "dtype": "bfloat16", "threads": 2, "class_order": "seed", "tasks": 5,
    "test_fraction": 0.3, "epochs": 2, "milestones": (1, 2), "store": "first-epoch",
    "checkpoint_every": 9, "batch_schedule": "random", "eval_every": 5,
    "scope": "all", "lr_decay": "linear", "reset_optimizer": True, "eval_images": 10,
    "eval_future": True, "corrupt": "skip", "steps": 3, "step_rows": "repeat",
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RunConfig)])
def test_every_field_counts_but_those_that_cannot(name):
    one = dataclasses.replace(CONFIG, epochs=3, steps=2)
    other = dataclasses.replace(one, **{name: OTHERS[name]})
    assert (run_key(other) == run_key(one)) == (name in NO_RESULT_DEPENDS_ON)


def test_names_do_not_change_between_versions():
    """Runs made before must be found again, also when a field with a default was added."""
    text = (
        '{"augment":"none","batch":4,"dtype":"float32","lr":0.05,"memory":12,"method":"er-las",'
        '"network":"mlp","replay_batch":4,"seed":0,"stream":"c-digits:tasks=2"}'
    )
    assert run_key(CONFIG) == hashlib.sha256(text.encode()).hexdigest()[:16] == "36b9425497ef0346"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"method": "er-las"}, {"method": "er-las:tau=1"}),
        ({"method": "er-las:tau=1.0,window=1"}, {"method": "er-las"}),
        ({"method": "er-las:tau=2,window=5"}, {"method": "er-las:window=5,tau=2.0"}),
        ({"method": "er:head=linear@argmax"}, {"method": "er"}),
        ({"method": "er-las:tau=0,window=5"}, {"method": "er"}),
        ({"method": "mir-las:subsample=7,tau=0@ncm"}, {"method": "mir:subsample=7@ncm"}),
        ({"method": "las"}, {"method": "fine-tune-las:prior=window"}),
        ({"stream": "c-digits:fraction=1", "tasks": 0}, {"stream": "c-digits", "tasks": 0}),
        ({"stream": "c-digits:tasks=5", "tasks": 0}, {"stream": "c-digits", "tasks": 5}),
        (
            {"stream": "c-digits:class_order=seed,fraction=0.50"},
            {"stream": "c-digits:fraction=0.5", "class_order": "seed"},
        ),
        ({"stream": "b-digits:minor=2,disjoint=50"}, {"stream": "b-digits:disjoint=50,minor=2"}),
        ({"stream": "c-/data/a.npz:fraction=1"}, {"stream": "c-/data/a.npz"}),
    ],
)
def test_one_run_written_in_two_ways(one, other):
    assert run_key(dataclasses.replace(CONFIG, **one)) == run_key(
        dataclasses.replace(CONFIG, **other)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("er-las", "er"),
        ("er-las", "er-las:tau=1.5"),
        ("er", "er@ncm"),
        ("er-las:window=2", "er-las:window=3"),
        ("mir", "mir:subsample=7"),
        ("not-a-method:x=1", "not-a-method:x=2"),
    ],
)
def test_other_methods_are_other_runs(one, other):
    keys = {run_key(dataclasses.replace(CONFIG, method=method)) for method in (one, other)}
    assert len(keys) == 2


@given(
    tau=st.floats(0, 100),
    window=st.integers(1, 50),
    fraction=st.floats(0.01, 1),
    order=st.booleans(),
)
def test_a_canonical_run_stays_as_it_is(tau, window, fraction, order):
    options = [f"tau={tau!r}", f"window={window}"]
    method = f"er-las:{','.join(options[::-1] if order else options)}"
    config = dataclasses.replace(CONFIG, method=method, stream=f"c-digits:fraction={fraction!r}")
    found = canonical(config)
    assert canonical(found) == found
    assert run_key(found) == run_key(config)
    assert (found.tasks, found.class_order) == (None, "label")


@given(lr=st.integers(1, 100), decay=st.floats(0, 1))
def test_a_config_that_was_written_and_read_has_the_same_name(lr, decay, tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    config = dataclasses.replace(CONFIG, lr=lr, weight_decay=decay)
    config.write(folder)
    assert run_key(RunConfig.read(folder)) == run_key(config)
    assert math.isfinite(int(run_key(config), 16))


def finish(folder, config, **metrics):
    folder.mkdir(parents=True, exist_ok=True)
    config.write(folder)
    (folder / "metrics.json").write_text(finished(config, **metrics))


def test_status(tmp_path):
    store = Store(tmp_path)
    folder = store.folder(CONFIG)
    assert folder == tmp_path / "runs" / run_key(CONFIG)
    assert store.status(CONFIG) == "waiting"
    store.record(Ended(CONFIG, folder, error="no luck", traceback="Traceback ..."))
    assert store.status(CONFIG) == "failed"
    (folder / LOCK).touch()
    with exclusive(folder / LOCK):
        assert store.status(CONFIG) == "running"
    assert store.status(CONFIG) == "failed"
    finish(folder, CONFIG, A_T=50.0)
    assert store.status(CONFIG) == "finished"
    assert store.metrics(CONFIG)["A_T"] == 50.0


def test_a_folder_that_cannot_be_written_to_is_told_at_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(EvenstreamError, match=f"cannot write to {place}: .*another --out"):
            Store(place).make()
    assert (tmp_path / "file").read_text() == "mine"
    Store(tmp_path / "store").make()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(EvenstreamError, match=r"no permission to write .*another --out"):
        Store(tmp_path / "store").make()


def test_failures_are_counted_and_forgotten(tmp_path):
    store = Store(tmp_path)
    run = Ended(CONFIG, store.folder(CONFIG), error="no luck", traceback="Traceback ...")
    store.record(run)
    store.record(dataclasses.replace(run, error="again"))
    expected = {"error": "again", "traceback": "Traceback ...", "attempts": 2}
    assert store.failure(CONFIG) == expected
    store.record(Ended(CONFIG, store.folder(CONFIG), metrics=Metrics()))
    assert store.failure(CONFIG) is None
    assert not (store.folder(CONFIG) / "error.json").exists()


def test_a_result_of_other_settings_is_not_taken_for_this_one(tmp_path):
    store = Store(tmp_path)
    finish(store.folder(CONFIG), dataclasses.replace(CONFIG, memory=3))
    assert store.metrics(CONFIG) is None


def test_all_finished_runs(tmp_path):
    store = Store(tmp_path)
    assert list(store.finished()) == []
    finish(store.folder(CONFIG), CONFIG, A_T=1)
    (tmp_path / "runs" / "notes").mkdir()
    other = dataclasses.replace(CONFIG, seed=1)
    store.record(Ended(other, store.folder(other), error="no luck"))
    assert [(config, found["A_T"]) for config, found in store.finished()] == [(CONFIG, 1)]


def test_a_store_that_was_kept_small_still_knows_its_runs(tmp_path):
    store, other = Store(tmp_path / "store"), dataclasses.replace(CONFIG, seed=1)
    finish(store.folder(CONFIG), CONFIG, A_T=50.0)
    (store.folder(CONFIG) / "events.jsonl").touch()
    store.folder(other).mkdir()
    other.write(store.folder(other))  # not finished
    bad = store.root / "runs" / "bad"
    bad.mkdir()
    (bad / "metrics.json").write_text("[")
    tool = Path(__file__).parents[2] / "tools/keep_results.py"

    def keep(source, target):
        command = [sys.executable, str(tool), str(source), str(target)]
        return subprocess.run(command, capture_output=True, text=True)

    packed = tmp_path / "kept.runs.jsonl"
    done = keep(store.root, packed)
    assert done.returncode == 0 and "kept 1 runs" in done.stdout and str(bad) in done.stderr
    assert len(packed.read_text().splitlines()) == 1
    assert keep(packed, tmp_path / "kept").returncode == 0
    kept = Store(tmp_path / "kept")
    assert kept.metrics(CONFIG)["A_T"] == 50.0
    assert kept.status(other) == "waiting"
    assert {file.name for file in kept.folder(CONFIG).iterdir()} == {"config.toml", "metrics.json"}
    assert keep(store.root, store.root / "inside").returncode != 0
    finish(store.folder(other), other, A_T=51.0)  # now it is
    assert keep(store.root, packed).returncode == 0
    assert [line.count('"A_T":51.0') for line in packed.read_text().splitlines()].count(1) == 1
    packed.write_text(damaged := packed.read_text() + "{")
    done = keep(store.root, packed)
    assert done.returncode != 0 and "line 3" in done.stderr and packed.read_text() == damaged
