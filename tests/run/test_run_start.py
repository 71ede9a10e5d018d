"""A run from its start: what it leaves behind, and what it refuses before it writes anything."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from evenstream.checkpoint import read_checkpoint
from evenstream.errors import DataError, EvenstreamError, InputError, UnknownName
from evenstream.interruption import Interrupted
from evenstream.learner.learner import Learner
from evenstream.methods import register
from evenstream.methods.er import ER
from evenstream.run import environment, preparation
from evenstream.run.config import RunConfig
from evenstream.run.folder import read_metrics
from evenstream.run.runner import resume_run, start_run
from tests.helpers.small_runs import StopAfter, names, outcome, read_events, small_config

# ---- what a run leaves behind --------------------------------------------------------------------


def test_files_of_a_run(table, tmp_path):
    config = small_config(table)
    found = start_run(config, tmp_path / "run")
    out = tmp_path / "run"
    assert names(out) == ["checkpoint", "config.toml", "env.json", "events.jsonl", "metrics.json"]
    assert len(names(out / "checkpoint")) == 4
    assert found == read_metrics(out)
    assert found["status"] == "finished"
    assert (found["steps"], found["samples"]) == (20, 80)
    assert found["tasks"] == [["kind 0", "kind 1"], ["kind 2", "kind 3"]]
    matrix = found["accuracy_matrix"]
    assert matrix[0][1] is None
    assert found["A_T"] == pytest.approx(sum(matrix[1]) / 2)
    assert found["F_T"] == pytest.approx(matrix[0][0] - matrix[1][0])
    assert found["average_accuracy"] == [matrix[0][0], found["A_T"]]
    assert found["true_share"] == [0.5, 0.5]
    assert sum(found["prediction_share"]) == pytest.approx(1)
    assert 0 < found["train_seconds_after_task"][0] < found["train_seconds"]
    assert (found["dtype"], found["device"], found["threads"]) == ("float32", "cpu", 1)
    events = read_events(out)
    assert [e["step"] for e in events if "loss" in e] == list(range(1, 21))
    assert [(e["step"], e["accuracies"]) for e in events if "accuracies" in e] == [
        (10, matrix[0][:1]), (20, matrix[1])
    ]  # fmt: skip
    assert RunConfig.read(out) == config
    assert json.loads((out / "env.json").read_text())["torch"]


def test_the_same_run_twice_is_the_same_bit_for_bit(tmp_path):
    """The golden rule: c-digits in float32, A_T and everything else."""
    config = small_config("c-digits", batch=10, replay_batch=10, memory=100, lr=0.1, tasks=5)
    one, two = (start_run(config, tmp_path / name) for name in ("one", "two"))
    assert one["A_T"] == two["A_T"]
    assert one["steps"] == 146
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")
    assert one["A_T"] > 80


def test_joint_sees_all_classes_from_the_start(table, tmp_path):
    with pytest.raises(Interrupted):  # in what would be the first task
        start_run(small_config(table, "joint"), tmp_path / "run", stop=StopAfter(5))
    saved = read_checkpoint(tmp_path / "run" / "checkpoint")["learner"]
    assert saved["progress"]["step"] == 5
    assert set(saved["labels"]) == {f"kind {c}" for c in range(4)}
    found = resume_run(tmp_path / "run")
    first_step = next(iter(read_events(tmp_path / "run")))
    assert first_step["rows"] == 4
    assert found["accuracy_matrix"][1][0] > 0
    assert found["samples"] == 80


def test_er_without_memory_is_fine_tuning(table, tmp_path):
    start_run(small_config(table, "er", memory=0), tmp_path / "er")
    start_run(small_config(table, "fine-tune", memory=0), tmp_path / "ft")
    one, two = outcome(tmp_path / "er")["metrics"], outcome(tmp_path / "ft")["metrics"]
    one["method"] = "fine-tune"
    assert one == two
    assert outcome(tmp_path / "er")["events"] == outcome(tmp_path / "ft")["events"]


def test_a_task_without_training_samples_counts_as_unlearned(table, tmp_path, monkeypatch):
    def gap(*arguments, **options):
        stream = open_stream(*arguments, **options)
        first = stream.tasks[0]
        stream.tasks[0] = type(first)(first.classes, first.train[:0], first.test)
        return stream

    open_stream = preparation.open_stream
    monkeypatch.setattr(preparation, "open_stream", gap)
    found = start_run(small_config(table), tmp_path / "run")
    assert found["accuracy_matrix"][0] == [0.0, None]
    assert found["steps"] == 10


def test_commit_is_that_of_the_source_tree_or_unknown(tmp_path, monkeypatch):
    """Installed in a virtual environment inside somebody's repository: not that one's commit."""
    site = tmp_path / ".venv" / "lib" / "python3" / "site-packages" / "evenstream" / "run"
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(environment, "__file__", str(site / "environment.py"))
    assert environment.source_commit.__wrapped__() is None


# ---- refusals: nothing is written ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "er-lass"}, UnknownName, "did you mean"),
        ({"method": "er:tau=1"}, InputError, "option of er-las"),
        ({"method": "er-las:tau=-1"}, InputError, "tau"),
        ({"network": "resnet"}, UnknownName, "network 'resnet'; did you mean"),
        ({"network": "resnet18"}, InputError, "resnet18.*images"),
        ({"augment": "crop"}, InputError, "crop.*takes images"),
        ({"augment": "spin"}, UnknownName, "spin"),
        ({"memory": -1}, InputError, "memory must be"),
        ({"batch": 0}, InputError, "batch must be"),
        ({"lr": float("nan")}, InputError, "lr must be"),
        ({"optimizer": "lion"}, UnknownName, "optimizer"),
        ({"device": "quantum"}, InputError, "device 'quantum'"),
        ({"tasks": 5}, InputError, "between 1 and the number of classes, 4"),
        ({"test_fraction": 0.5}, InputError, "leave test_fraction out"),
        ({"stream": "/no/such/file.npz"}, DataError, "there is no file"),
        ({"stream": "c-nothing"}, UnknownName, "unknown stream"),
    ],
)
def test_bad_settings(table, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        start_run(small_config(**{"stream": table, **options}), tmp_path / "run")
    assert names(tmp_path) == []


@pytest.mark.parametrize("options", [{"threads": 0}, {"checkpoint_every": 0}])
def test_bad_configurations(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be 1 or more"):
        small_config("c-digits", **options)


@pytest.fixture
def with_needs():
    def make(*needs):
        @dataclass
        class Needy(ER):
            pass

        Needy.needs = frozenset(needs)
        register("needy")(Needy)

    return make


def hide_boundaries(monkeypatch):
    """Let every stream keep its boundaries to itself."""
    real = preparation.open_stream

    def hiding(*arguments, **options):
        stream = real(*arguments, **options)
        stream.boundaries = False
        return stream

    monkeypatch.setattr(preparation, "open_stream", hiding)


def test_needs_are_checked_against_the_stream(table, tmp_path, with_needs, monkeypatch):
    with_needs("second_pass")
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "MOST_TASK_BYTES", 100)
        with pytest.raises(InputError, match="needy looks at a whole task's data at once"):
            start_run(small_config(table, "needy"), tmp_path / "run")
    with_needs("memory")
    with pytest.raises(InputError, match="needy cannot do without a memory"):
        start_run(small_config(table, "needy", memory=0), tmp_path / "run")
    with_needs("boundaries")
    hide_boundaries(monkeypatch)
    with pytest.raises(InputError, match=r"needy needs task boundaries, and .* does not say"):
        start_run(small_config(table, "needy"), tmp_path / "run")
    with pytest.raises(InputError, match="prior=macro needs each task's label counts"):
        start_run(small_config(table, "er-las:prior=macro"), tmp_path / "run")
    assert names(tmp_path) == []


def test_streams_without_boundaries_never_tell_them(table, tmp_path, monkeypatch):
    def told(*arguments):
        raise AssertionError("the learner was told of a boundary")

    hide_boundaries(monkeypatch)
    for name in ("start_task", "end_task"):
        monkeypatch.setattr(Learner, name, told)
    found = start_run(small_config(table, "fine-tune", batch=3), tmp_path / "run")
    saved = read_checkpoint(tmp_path / "run" / "checkpoint")["learner"]["progress"]
    assert (saved["task"], saved["in_task"], saved["task_counts"]) == (-1, False, None)
    assert (found["steps"], found["samples"]) == (27, 80)  # one short batch, at the very end
    rows = [event["rows"] for event in read_events(tmp_path / "run") if "rows" in event]
    assert rows == [3] * 26 + [2]


def test_folder_that_holds_something(table, tmp_path):
    config = small_config(table)
    start_run(config, tmp_path / "run")
    before = outcome(tmp_path / "run")
    with pytest.raises(EvenstreamError, match="already holds a run; continue it with `evenstream"):
        start_run(config, tmp_path / "run")
    assert outcome(tmp_path / "run") == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("precious")
    with pytest.raises(EvenstreamError, match="is not empty"):
        start_run(config, tmp_path / "notes")
    assert names(tmp_path / "notes") == ["mine.txt"]


def test_folder_that_cannot_be_written(table, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(EvenstreamError, match=r"cannot write to .*file"):
            start_run(small_config(table), out)
    assert names(tmp_path) == ["file"]


def test_a_run_killed_before_it_wrote_its_settings(table, tmp_path):
    """The folder may hold a half-written config.toml.tmp; it is free all the same."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.toml.tmp").write_text("method = 'e")
    start_run(small_config(table), out)
    assert "config.toml.tmp" not in names(out)


def test_the_first_task_may_have_no_test_samples(table, tmp_path):
    with np.load(table) as file:
        arrays = dict(file)
    kept = ~np.isin(arrays["y_test"], ["kind 0", "kind 1"])
    arrays |= {name: arrays[name][kept] for name in ("x_test", "y_test")}
    np.savez(tmp_path / "part.npz", **arrays)
    found = start_run(small_config(tmp_path / "part.npz", class_order="label"), tmp_path / "run")
    assert found["accuracy_matrix"][0] == [None, None]
    assert found["A_T"] == found["accuracy_matrix"][1][1] > 0
