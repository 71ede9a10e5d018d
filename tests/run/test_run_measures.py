"""What a run measures beside its task-end accuracies, and that it survives a stop."""

import json
import warnings

import numpy as np
import pytest

from evenstream import metrics
from evenstream.checkpoint import fingerprint, read_checkpoint
from evenstream.data.samples import Read
from evenstream.errors import CheckpointError, InputError
from evenstream.interruption import Interrupted
from evenstream.run import environment, preparation
from evenstream.run.config import RunConfig
from evenstream.run.runner import resume_run, start_run
from evenstream.streams.stream import Batch
from tests.helpers.small_runs import (
    StopAfter,
    outcome,
    read_events,
    save_images,
    save_table,
    small_config,
)


@pytest.fixture
def table(tmp_path):
    """A file of its own for each test: some change it."""
    return save_table(tmp_path / "table.npz")


def stopped(config, out, steps):
    with pytest.raises(Interrupted):
        start_run(config, out, stop=StopAfter(steps))


def learner_of(out):
    return fingerprint(read_checkpoint(out / "checkpoint")["learner"])


# ---- online accuracy -----------------------------------------------------------------------------


DIGITS = {"batch": 10, "replay_batch": 10, "memory": 100, "lr": 0.1, "tasks": 0}


def test_area_under_the_online_accuracy_of_digits(tmp_path):
    config = small_config("c-digits", **DIGITS, eval_every=5, eval_images=100)
    found = start_run(config, tmp_path / "watched")
    online = found["online"]
    assert (found["steps"], len(online["accuracy"])) == (146, 29)
    assert found["A_AUC"] == pytest.approx(sum(online["accuracy"]) * 5 / 146)
    assert (online["every"], online["test_samples"], online["of"]) == (5, 100, 355)
    assert online["statement"] == (
        "on a fixed class-balanced subset of 100 of 355 test images, every 5 steps"
    )
    events = [e for e in read_events(tmp_path / "watched") if e.get("event") == "online"]
    assert [e["step"] for e in events] == list(range(5, 146, 5))
    assert [e["accuracy"] for e in events] == online["accuracy"]
    assert events[0]["samples"] == 50
    # ... and it leaves no trace on the learner.
    plain = start_run(small_config("c-digits", **DIGITS), tmp_path / "alone")
    assert learner_of(tmp_path / "alone") == learner_of(tmp_path / "watched")
    assert plain["accuracy_matrix"] == found["accuracy_matrix"]
    assert (plain["A_AUC"], plain["online"]) == (None, None)


def test_watched_convnet_with_augmentation_learns_the_same(tmp_path):
    images = save_images(tmp_path / "images.npz")
    options = {"network": "convnet", "augment": "crop1+flip", "momentum": 0.9}
    start_run(small_config(images, **options), tmp_path / "alone")
    watched = {"eval_every": 1, "eval_images": 8, "eval_future": True}
    start_run(small_config(images, **options, **watched), tmp_path / "watched")
    assert learner_of(tmp_path / "alone") == learner_of(tmp_path / "watched")


def test_all_methods_and_seeds_are_measured_on_the_same_samples(table):
    chosen = []
    for seed, method, order in ((0, "er", "label"), (1, "joint", "seed")):
        config = small_config(table, method, seed=seed, class_order=order, eval_every=5,
                              eval_images=9)  # fmt: skip
        stream = preparation.prepare(config)
        chosen.append(preparation.make_evaluation(config, stream).online_rows.tolist())
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 9


@pytest.mark.parametrize("options", [{"eval_every": -1}, {"eval_images": -1}])
def test_bad_evaluations(options):
    with pytest.raises(InputError, match="must be 0 or more"):
        small_config("c-digits", **options)


def test_a_subset_has_one_of_each_class_at_least(table, tmp_path):
    found = start_run(small_config(table, eval_every=5, eval_images=3), tmp_path / "run")
    assert found["online"]["test_samples"] == 4


# ---- the other numbers ---------------------------------------------------------------------------


def test_numbers_of_a_finished_run_fit_together(table, tmp_path):
    found = start_run(small_config(table, "er", eval_future=True), tmp_path / "run")
    matrix, chance = found["accuracy_matrix"], found["untrained_accuracy"]
    assert matrix[0][1] == 0  # its classes were not seen yet
    assert found["F_T_literal"] == found["F_T"] == pytest.approx(matrix[0][0] - matrix[1][0])
    assert found["BWT"] == pytest.approx(-found["F_T"])
    assert found["FWT"] == pytest.approx(0 - chance[1])
    # Test sets are of equal size here, so all averages agree.
    assert found["A_T_cbl"] == pytest.approx(found["A_T"])
    assert found["A_T_cbl_classes"] == pytest.approx(found["A_T"])
    assert np.mean(found["class_recall"]) == pytest.approx(found["A_T"])
    assert found["class_balanced"]["task_mean"] == pytest.approx(found["average_accuracy"])
    assert found["recency_bias"] == pytest.approx(found["prediction_share"][1] - 0.5)
    assert 0 <= found["ECE"] <= 100
    steps = [event for event in read_events(tmp_path / "run") if "loss" in event]
    mean = 100 * sum(event["accuracy"] for event in steps) / 20
    assert found["prequential_accuracy"] == pytest.approx(mean)
    assert found["prequential_recent"] == pytest.approx(mean)
    assert found["prequential_window"] == 1000


def test_what_needs_the_tasks_ahead_is_not_made_up(table, tmp_path):
    found = start_run(small_config(table), tmp_path / "run")
    assert found["accuracy_matrix"][0][1] is None
    for name in ("F_T_literal", "FWT", "untrained_accuracy", "A_AUC", "online"):
        assert found[name] is None


def test_share_of_joint_training_is_by_the_tasks_of_the_stream(table, tmp_path):
    found = start_run(small_config(table, "joint"), tmp_path / "run")
    assert sum(found["prediction_share"]) == pytest.approx(1)
    assert found["true_share"] == [0.5, 0.5]


def test_nothing_is_said_of_the_whole_stream_before_its_end(table, tmp_path):
    stopped(small_config(table, eval_every=5), tmp_path / "run", 12)
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for name in ("A_T", "A_T_cbl", "A_AUC", "F_T", "BWT", "ECE", "class_recall"):
        assert found[name] is None
    assert len(found["online"]["accuracy"]) == 2
    assert len(found["class_balanced"]["class_mean"]) == 1
    assert found["prequential_accuracy"] > 0


# ---- batch sizes ---------------------------------------------------------------------------------


def test_batch_size_schedule(table, tmp_path):
    config = small_config(table, "fine-tune", batch=10, batch_schedule="increase")
    found = start_run(config, tmp_path / "run")
    rows = [event["rows"] for event in read_events(tmp_path / "run") if "rows" in event]
    assert rows == [2] * 20 + [10] * 4
    assert (found["steps"], found["samples"]) == (24, 80)


def test_batch_size_too_small_for_a_schedule(table, tmp_path):
    with pytest.raises(InputError, match="schedule"):
        start_run(small_config(table, batch=1, batch_schedule="random"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- samples that cannot be read -----------------------------------------------------------------


@pytest.fixture
def damaged(monkeypatch):
    """Every fourth training batch and every fifth test sample cannot be read."""
    real_open = preparation.open_stream

    def open_damaged(*arguments, **options):
        stream = real_open(*arguments, **options)
        real_batches, real_test = stream.batches, stream.test_batches

        def batches(task, batch, start=0, **options):
            for number, found in enumerate(real_batches(task, batch, start, **options), start):
                names = [f"{task}-{number}-{i}.jpg: cut" for i in range(len(found.labels))]
                yield Batch(found.x[:0], [], tuple(names)) if number % 4 == 0 else found

        def test_batches(rows, size):
            for read in real_test(rows, size):
                good = read.rows % 5 != 0
                names = tuple(f"test-{row}.jpg: cut" for row in read.rows[~good])
                yield Read(read.rows[good], read.x[good], names)

        monkeypatch.setattr(stream, "batches", batches)
        monkeypatch.setattr(stream, "test_batches", test_batches)
        return stream

    monkeypatch.setattr(preparation, "open_stream", open_damaged)


def test_samples_that_cannot_be_read_are_passed_over_and_counted(table, tmp_path, damaged):
    config = small_config(table, eval_every=5, eval_images=8)
    with pytest.warns(UserWarning) as said:
        found = start_run(config, tmp_path / "whole")
    assert [str(warning.message) for warning in said] == [
        "left out a sample that cannot be read: 0-0-0.jpg: cut",
        "left out a sample that cannot be read: 0-0-1.jpg: cut",
        "left out a sample that cannot be read: 0-0-2.jpg: cut",
        "left out 2 test sample(s) that cannot be read, the first: test-0.jpg: cut",
        "left out 4 test sample(s) that cannot be read, the first: test-0.jpg: cut",
    ]
    assert (found["steps"], found["samples"]) == (14, 56)
    assert found["skipped_train"]["count"] == 24
    assert len(found["skipped_train"]["first"]) == 20
    assert found["skipped_train"]["first"][4] == "0-4-0.jpg: cut"
    assert found["skipped_test"] == {
        "count": 4, "first": [f"test-{row}.jpg: cut" for row in (0, 5, 10, 15)]
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for steps in (1, 5, 7, 8, 13):
            out = tmp_path / f"stopped-{steps}"
            stopped(config, out, steps)
            resume_run(out)
            assert outcome(out) == outcome(tmp_path / "whole")


# ---- the data behind a run -----------------------------------------------------------------------


def changed(table, **arrays):
    with np.load(table) as file:
        content = {**file, **{name: change(file) for name, change in arrays.items()}}
    np.savez(table, **content)


def other_rows(file):
    return file["x_train"] + 1


def other_labels(file):
    return np.roll(file["y_train"], 1)


def other_test(file):
    return file["x_test"][::-1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": other_rows}, "different inputs;"),
        ({"x_test": other_test}, "different inputs;"),
        ({"y_train": other_labels}, "different labels, order, tasks;"),
    ],
)
def test_data_that_changed_is_noticed(table, tmp_path, arrays, message):
    stopped(small_config(table), tmp_path / "run", 12)
    before = outcome(tmp_path / "run")
    changed(table, **arrays)
    with pytest.raises(CheckpointError, match=f"has changed.*{message} put the old data back"):
        resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == before


def test_data_that_moved_is_welcome(table, tmp_path):
    start_run(small_config(table), tmp_path / "whole")
    stopped(small_config(table), tmp_path / "run", 12)
    moved = table.rename(tmp_path / "elsewhere.npz")
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace(str(table), str(moved)))
    assert resume_run(tmp_path / "run")["A_T"] == outcome(tmp_path / "whole")["metrics"]["A_T"]


def test_order_that_changed_is_noticed(tmp_path):
    """A run may be pointed at moved data, but not at another stream over the same data."""
    config = small_config("c-digits", **DIGITS)
    stopped(config, tmp_path / "run", 3)
    config_file = tmp_path / "run" / "config.toml"
    config_file.write_text(config_file.read_text().replace("c-digits", "b-digits"))
    with pytest.raises(CheckpointError, match="different order, tasks"):
        resume_run(tmp_path / "run")


def test_boundaries_that_are_gone_are_noticed(tmp_path):
    """The same samples in the same order, but batches would mean others."""
    stopped(small_config("c-digits", **DIGITS), tmp_path / "run", 3)
    config_file = tmp_path / "run" / "config.toml"
    text = config_file.read_text()
    config_file.write_text(text.replace('"c-digits"', '"c-digits:boundaries=false"'))
    with pytest.raises(CheckpointError, match="different boundaries"):
        resume_run(tmp_path / "run")


# ---- environments and older versions -------------------------------------------------------------


def test_each_session_is_on_record(table, tmp_path, monkeypatch):
    first = {"torch": "1", "cpu": "old", "command": ["run"]}
    monkeypatch.setattr(environment, "describe_environment", lambda: dict(first))
    stopped(small_config(table), tmp_path / "run", 3)
    path = tmp_path / "run" / "env.json"
    assert json.loads(path.read_text()) == first
    second = {"torch": "1", "cpu": "new", "command": ["resume"]}
    monkeypatch.setattr(environment, "describe_environment", lambda: dict(second))
    resume_run(tmp_path / "run")
    resumed = [{"step": 3, "cpu": "new", "command": ["resume"]}]
    assert json.loads(path.read_text()) == {**first, "resumed": resumed}
    for damage in ("", "[]", "{"):
        path.write_text(damage)
        environment.record_session(tmp_path / "run", 7)
        assert json.loads(path.read_text()) == second


OLD = (
    *("batch_schedule", "corrupt", "epochs", "eval_", "milestones", "store", "weights"),
    *("lr_decay", "reset_optimizer", "scope", "step"),
)


def test_run_of_an_older_version(table, tmp_path):
    """Its settings lack what is new."""
    config = small_config(table)
    config.write(tmp_path)
    path = tmp_path / "config.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(OLD)]
    assert len(lines) == 18
    path.write_text("\n".join(lines))
    assert RunConfig.read(tmp_path) == config


def test_literal_forgetting_of_a_stream_that_shares_classes(tmp_path):
    config = small_config("b-digits", **DIGITS, eval_future=True)
    found = start_run(config, tmp_path / "run")
    matrix = found["accuracy_matrix"]
    assert all(value is not None for row in matrix for value in row)
    assert found["F_T_literal"] == pytest.approx(metrics.forgetting(matrix, zero_padded=False))
    assert found["F_T_literal"] >= found["F_T"]
