"""TensorBoard and MLflow get what the run folder has, and can never harm a run."""

import threading
import time

import numpy as np
import pytest

from evenstream.cli.main import main
from evenstream.errors import InputError, UnknownName
from evenstream.interruption import Interrupted
from evenstream.run.config import RunConfig
from evenstream.run.folder import read_metrics
from evenstream.run.runner import resume_run, start_run
from evenstream.track import Tracking, read_names, tracking
from evenstream.track.tracker import TrackedRun, Tracker
from tests.helpers.small_runs import StopAfter, read_events, save_table, small_config


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return save_table(tmp_path_factory.mktemp("data") / "table.npz")


def expected_curves(folder):
    """The points that a tracker must have, from the run's own files."""
    curves = {}
    for event in read_events(folder):
        step = event["step"]
        if event.get("event") == "online":
            curves.setdefault("online_accuracy", []).append((step, event["accuracy"]))
        elif event.get("event") == "evaluated":
            known = event["accuracies"]
            curves.setdefault("average_accuracy", []).append((step, sum(known) / len(known)))
        else:
            curves.setdefault("loss", []).append((step, event["loss"]))
            if event["accuracy"] is not None:
                curves.setdefault("accuracy", []).append((step, 100 * event["accuracy"]))
    metrics = read_metrics(folder)
    for name in ("A_T", "F_T", "A_AUC"):
        if metrics[name] is not None:
            curves[name] = [(metrics["steps"], metrics[name])]
    return single_precision(curves)


def single_precision(curves):
    """TensorBoard keeps no more."""
    return {
        name: [(step, float(np.float32(value))) for step, value in points]
        for name, points in curves.items()
    }


def mlflow_runs(home):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(home / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("evenstream")
    return client, client.search_runs([experiment.experiment_id])


def mlflow_curves(client, found):
    curves = {}
    for name in found.data.metrics:
        history = client.get_metric_history(found.info.run_id, name)
        curves[name] = sorted((point.step, point.value) for point in history)
    return single_precision(curves)


def tensorboard_curves(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    names = events.Tags()["scalars"]
    return {name: [(point.step, point.value) for point in events.Scalars(name)] for name in names}


def test_trackers_are_given_what_they_can_show(table, tmp_path):
    config = small_config(table, epochs=3, milestones=(1, 2))
    assert config.weights is None
    params = TrackedRun(config, tmp_path, tmp_path, {}).params
    assert params["milestones"] == "1,2"
    assert "weights" not in params
    assert {type(value) for value in params.values()} <= {bool, int, float, str}


def test_both_get_what_the_run_wrote(table, tmp_path, monkeypatch):
    """A run that is stopped, then resumed: one curve, each point once."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = tmp_path / "run"
    config = small_config(table, eval_every=4)
    names = read_names("tensorboard, mlflow")
    with Tracking(names, [out], out), pytest.raises(Interrupted):
        start_run(config, out, stop=StopAfter(9))
    with Tracking(names, [out], out):
        resume_run(out)
    expected = expected_curves(out)
    assert set(expected) == {
        "loss", "accuracy", "online_accuracy", "average_accuracy", "A_T", "F_T", "A_AUC"
    }  # fmt: skip
    client, (found,) = mlflow_runs(out)
    assert mlflow_curves(client, found) == expected
    assert found.data.params["method"] == "er-las"
    assert found.data.params["memory"] == "12"
    assert found.info.status == "FINISHED"
    (folder,) = (out / "tensorboard").iterdir()
    assert folder.name.startswith("er-las_table.npz_seed-0_")
    assert tensorboard_curves(folder) == expected
    # Looked at again, nothing is sent twice.
    with Tracking(names, [out], out):
        pass
    assert len(mlflow_runs(out)[1]) == 1
    assert tensorboard_curves(folder) == expected


def test_a_comparison_is_tracked(table, tmp_path, monkeypatch, one_process):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = tmp_path / "c"
    words = ["compare", "er", "er-las", "--stream", str(table), "--seeds", "1", "--batch", "4"]
    words += ["--dtype", "float32", "--track", "mlflow", "--out", str(out)]
    assert main(words) == 0
    client, found = mlflow_runs(out)
    assert {run.data.params["method"] for run in found} == {"er", "er-las"}
    for run in found:
        (folder,) = [f for f in out.glob("runs/*/*") if str(f) == run.data.tags["folder"]]
        assert mlflow_curves(client, run) == expected_curves(folder)


@pytest.fixture
def one_process(monkeypatch):
    from evenstream.run import compare
    from evenstream.run.workers import attempt

    def work_off(jobs, work, n_workers, stop):
        while jobs:
            job = jobs.popleft()
            yield job, attempt(work, job, stop)

    monkeypatch.setattr(compare, "work_off", work_off)


class Broken(Tracker):
    """Fails at the first word."""

    made = 0

    def __init__(self, run):
        Broken.made += 1

    def log(self, scalars):
        raise OSError("no server")

    def finish(self, results):
        raise AssertionError

    def close(self):
        raise AssertionError


class Hanging(Broken):
    """Does not answer until it is let go."""

    asked, go = threading.Event(), threading.Event()

    def __init__(self, run):
        pass

    def log(self, scalars):
        self.asked.set()
        self.go.wait(60)

    def finish(self, results):
        pass

    def close(self):
        pass


@pytest.fixture
def played(monkeypatch):
    """A tracker of the test's own, by the name `played`."""

    def play(tracker):
        monkeypatch.setattr(tracking, "load_tracker", lambda name: tracker)
        monkeypatch.setattr(tracking, "EVERY_SECONDS", 0.01)
        return ["played"]

    return play


def test_a_tracker_that_fails_warns_once_and_stops_nothing(table, tmp_path, played):
    names = played(Broken)
    folders = [tmp_path / "one", tmp_path / "two"]
    with pytest.warns(UserWarning, match="no server") as warned:  # noqa: SIM117
        with Tracking(names, folders, tmp_path):
            for seed, folder in enumerate(folders):
                assert start_run(small_config(table, seed=seed), folder)["status"] == "finished"
    (warning,) = warned
    assert str(warning.message) == (
        "played failed and is left alone from now on; the run folders have everything "
        "(OSError: no server)"
    )
    assert Broken.made == 1


def test_a_tracker_that_hangs_is_given_up(table, tmp_path, played, monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE", 0.05)
    start_run(small_config(table), tmp_path / "run")
    began = time.monotonic()
    hung = Tracking(played(Hanging), [tmp_path / "run", tmp_path / "two"], tmp_path)
    with pytest.warns(UserWarning, match="played took longer than 0 s"), hung:
        assert Hanging.asked.wait(30)  # from here on no run can wait for it
        assert start_run(small_config(table, seed=1), tmp_path / "two")["status"] == "finished"
    assert time.monotonic() - began < 30
    Hanging.go.set()
    hung._thread.join()


def test_a_damaged_log_costs_nothing_but_the_damaged_lines(table, tmp_path, played):
    seen = []

    class Notes(Hanging):
        def log(self, scalars):
            seen.extend(scalar.step for scalar in scalars if scalar.name == "loss")

        def remember(self):
            return {}

    start_run(small_config(table), tmp_path / "run")
    log = tmp_path / "run" / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    lines[3], lines[7] = "???\n", '{"step": "eight"}\n'
    log.write_text("".join(lines))
    with pytest.warns(UserWarning, match="played lacks 2 lines of the log"):  # noqa: SIM117
        with Tracking(played(Notes), [tmp_path / "run"], tmp_path):
            pass
    assert seen == [step for step in range(1, 21) if step not in (4, 8)]


def test_names():
    assert read_names("") == []
    assert read_names("mlflow,tensorboard") == ["mlflow", "tensorboard"]
    with pytest.raises(UnknownName, match="unknown tracker 'tensorbord'; did you mean tensorboard"):
        read_names("tensorbord")


def test_a_package_that_is_missing_is_named(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(tracking, "load_tracker", missing)
    with pytest.raises(InputError, match=r"pip install 'evenstream\[mlflow\]'"):
        read_names("mlflow")


def test_a_run_without_trackers_has_none_of_their_files(table, tmp_path):
    with Tracking([], [tmp_path / "run"], tmp_path / "run"):
        start_run(small_config(table), tmp_path / "run")
    assert RunConfig.read(tmp_path / "run") == small_config(table)
    assert not list(tmp_path.glob("run/*track*")) + list(tmp_path.glob("run/mlruns"))
