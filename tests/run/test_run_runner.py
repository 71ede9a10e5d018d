"""A run: what it writes, what it refuses, and that stopping it changes nothing."""

import errno
import functools
import json
import re
import resource
import tomllib
from dataclasses import asdict, dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenstream.checkpoint import read_checkpoint, write_checkpoint
from evenstream.errors import CheckpointError, DataError, EvenstreamError, InputError, UnknownName
from evenstream.learner.learner import Learner
from evenstream.methods import METHODS
from evenstream.methods.er import ER
from evenstream.run import environment, preparation, runner, session
from evenstream.run.config import RunConfig
from evenstream.run.environment import describe_environment
from evenstream.run.events import read_events
from evenstream.run.files import exclusive
from evenstream.run.folder import read_metrics
from evenstream.run.interruption import Interrupted
from evenstream.run.runner import resume_run, start_run
from small_runs import METRIC_TIMES, StopAfter, outcome, save_images, save_table, small_config


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Describe the machine once."""
    known = describe_environment()
    monkeypatch.setattr(environment, "describe_environment", lambda: known)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return save_table(tmp_path_factory.mktemp("data") / "table.npz")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("data") / "images.npz")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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
    assert tomllib.loads((out / "config.toml").read_text()) == asdict(config)
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
    found = start_run(small_config(table, "joint"), tmp_path / "run")
    saved = read_checkpoint(tmp_path / "run" / "checkpoint")
    first_step = next(iter(read_events(tmp_path / "run")))
    assert first_step["rows"] == 4
    assert set(saved["learner"]["labels"]) == {f"kind {c}" for c in range(4)}
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
        ({"optimizer": "lion"}, InputError, "optimizer must be"),
        ({"device": "quantum"}, InputError, "device 'quantum'"),
        ({"tasks": 5}, InputError, "between 1 and the number of classes, 4"),
        ({"test_fraction": 0.5}, InputError, "leave test_fraction out"),
        ({"stream": "/no/such/file.npz"}, DataError, "there is no file"),
        ({"stream": "c-nothing"}, UnknownName, "unknown stream"),
    ],
)
def test_bad_settings(table, tmp_path, options, error, message):
    method = options.pop("method", "er-las")
    stream = options.pop("stream", table)
    with pytest.raises(error, match=message):
        start_run(small_config(stream, method, **options), tmp_path / "run")
    assert names(tmp_path) == []


@pytest.mark.parametrize("options", [{"threads": 0}, {"checkpoint_every": 0}])
def test_bad_configurations(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be 1 or more"):
        small_config("c-digits", **options)


@pytest.fixture
def with_needs(monkeypatch):
    def make(*needs):
        @dataclass
        class Needy(ER):
            pass

        Needy.needs, Needy.name = frozenset(needs), "needy"
        monkeypatch.setitem(METHODS, "needy", Needy)

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
    learner = read_checkpoint(tmp_path / "run" / "checkpoint")["learner"]
    assert (learner["task"], learner["in_task"], learner["task_counts"]) == (-1, False, None)
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


def test_disk_that_is_full_from_the_start(table, tmp_path, full_disk):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    full_disk(0)
    with pytest.raises(EvenstreamError, match="cannot write to"):
        start_run(small_config(table), tmp_path / "run")
    full_disk(unlimited)  # at once: pytest's own output may go to a file
    assert names(tmp_path) == []


def test_a_run_killed_before_it_wrote_its_settings(table, tmp_path):
    """The folder may hold a half-written config.toml.tmp; it is free all the same."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.toml.tmp").write_text("method = 'e")
    start_run(small_config(table), out)
    assert "config.toml.tmp" not in names(out)


# ---- stopping and going on -----------------------------------------------------------------------


CASES = {
    "table": {},
    "exact": {"checkpoint_every": 5},
    "window": {"method": "er-las:window=3", "checkpoint_every": 1},
    "macro": {"method": "er-las:prior=macro"},
    "random": {"method": "er-las:prior=random", "class_order": "seed", "seed": 5},
    "joint": {"method": "joint", "optimizer": "adam"},
    "images": {"network": "convnet", "augment": "crop1+flip", "momentum": 0.9},
    "online": {"eval_every": 3, "eval_images": 9, "eval_future": True},
    "schedule": {"batch_schedule": "increase", "batch": 8, "eval_every": 4},
}


@pytest.fixture(scope="module")
def whole(table, images, tmp_path_factory):
    """Uninterrupted runs of each case, made when first needed."""

    @functools.cache
    def make(case):
        options = dict(CASES[case])
        method = options.pop("method", "er-las")
        config = small_config(images if case == "images" else table, method, **options)
        out = tmp_path_factory.mktemp(case) / "run"
        start_run(config, out)
        return config, outcome(out)

    return make


def run_with_stops(config, out, stops):
    """Stop after each of these numbers of steps, then let it finish; returns how often it was."""
    for count, steps in enumerate(stops):
        begin = start_run if count == 0 else lambda config, out, stop: resume_run(out, stop=stop)
        try:
            begin(config, out, stop=StopAfter(steps))
        except Interrupted as stopped:
            at = int(re.search(r"stopped at step (\d+) and saved", str(stopped))[1])
            assert read_metrics(out)["steps"] == at
            assert read_metrics(out)["status"] == "unfinished"
            assert f"evenstream resume {out}" in str(stopped)
        else:
            return count
    resume_run(out)
    return len(stops)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=st.sampled_from(sorted(CASES)),
    stops=st.lists(st.integers(1, 20), min_size=1, max_size=3),
)
def test_stopped_equals_uninterrupted(case, stops, whole, tmp_path_factory):
    config, expected = whole(case)
    out = tmp_path_factory.mktemp("stopped") / "run"
    run_with_stops(config, out, stops)
    assert outcome(out) == expected


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=st.sampled_from(sorted(CASES)),
    stops=st.lists(st.integers(1, 20), min_size=1, max_size=8),
)
def test_stopped_equals_uninterrupted_at_length(case, stops, whole, tmp_path_factory):
    config, expected = whole(case)
    out = tmp_path_factory.mktemp("stopped") / "run"
    run_with_stops(config, out, stops)
    assert outcome(out) == expected


@pytest.mark.parametrize("stop", [1, 9, 10, 11, 19, 20])
def test_stopped_at_the_edges_of_tasks(stop, whole, tmp_path):
    config, expected = whole("exact")
    assert run_with_stops(config, tmp_path / "run", [stop]) == 1
    assert outcome(tmp_path / "run") == expected


class Crash(BaseException):
    """Ends a run without any chance to save."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 6))
def test_crash_at_each_checkpoint(number, moment, whole, tmp_path, monkeypatch):
    """With a checkpoint at the last step of each task there are two of the same step.

    If only the first of them was written, the evaluation between them is in the events already; it
    must not be there twice in the end.
    """
    config, expected = whole("exact")
    left = number

    def crashing(*arguments):
        nonlocal left
        left -= 1
        if left == 0 and moment == "before":
            raise Crash
        path = write_checkpoint(*arguments)
        if left == 0:
            raise Crash
        return path

    with monkeypatch.context() as patch:
        patch.setattr(runner, "write_checkpoint", crashing)
        with pytest.raises(Crash):
            start_run(config, tmp_path / "run")
    resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == expected


def test_resume_before_the_first_checkpoint_starts_over(whole, tmp_path, monkeypatch):
    config, expected = whole("table")
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "end_task", lambda *arguments: (_ for _ in ()).throw(Crash()))
        patch.setattr(runner, "write_checkpoint", lambda *arguments: None)
        with pytest.raises(Crash):
            start_run(config, tmp_path / "run")
    assert len(read_events(tmp_path / "run")) == 10
    resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == expected


def test_resume_of_a_finished_run_changes_nothing(table, tmp_path, monkeypatch):
    first = start_run(small_config(table), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    monkeypatch.setattr(runner, "execute", None)
    assert resume_run(tmp_path / "run") == first
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"steps": 3}'])
def test_resume_makes_lost_metrics_again(content, whole, tmp_path):
    config, expected = whole("table")
    start_run(config, tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text(content)
    resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == expected


def test_time_goes_on_counting(table, tmp_path):
    with pytest.raises(Interrupted):
        start_run(small_config(table), tmp_path / "run", stop=StopAfter(15))
    before = read_metrics(tmp_path / "run")
    after = resume_run(tmp_path / "run")
    for name in METRIC_TIMES - {"train_seconds_after_task", "samples_per_second"}:
        assert after[name] > before[name]
    assert after["train_seconds_after_task"][0] == before["train_seconds_after_task"][0]


# ---- damaged and changed runs --------------------------------------------------------------------


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
        pytest.raises(EvenstreamError, match="another process is at work in"),
    ):
        resume_run(tmp_path / "run")
    assert outcome(tmp_path / "run") == before
    resume_run(tmp_path / "run")


# ---- the disk runs full --------------------------------------------------------------------------


@pytest.fixture
def full_disk():
    """A limit on the size of files, set by a real system call: writing beyond it fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FullAt(StopAfter):
    def __init__(self, step, fill):
        super().__init__(step)
        self.fill = fill

    def is_set(self):
        if super().is_set():
            self.fill()
        return False


@pytest.mark.parametrize(
    ("room", "message"),
    [(20_000, "cannot write a checkpoint"), (1000, "cannot write to .*free some space")],
    ids=["checkpoint", "events"],
)
def test_disk_runs_full(room, message, whole, tmp_path, full_disk):
    config, expected = whole("table")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    out = tmp_path / "run"
    with pytest.raises(EvenstreamError, match=message):
        try:
            start_run(config, out, stop=FullAt(12, lambda: full_disk(room)))
        finally:
            full_disk(unlimited)  # at once: pytest's own output may go to a file
    assert read_checkpoint(out / "checkpoint")["position"]["task"] == 1
    resume_run(out)
    assert outcome(out) == expected


def test_metrics_cannot_be_written(whole, tmp_path, monkeypatch):
    config, expected = whole("table")
    out = tmp_path / "run"
    real = runner.write_atomically

    def full(path, text):
        if path.name == "metrics.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "write_atomically", full)
        with pytest.raises(EvenstreamError, match=r"No space left.*then `evenstream resume"):
            start_run(config, out)
    resume_run(out)
    assert outcome(out) == expected


def test_loss_that_is_not_finite_ends_the_run_without_losing_it(table, tmp_path):
    with pytest.raises(EvenstreamError, match="the loss is"):
        start_run(small_config(table, lr=1e30, checkpoint_every=1), tmp_path / "run")
    assert read_checkpoint(tmp_path / "run" / "checkpoint")["learner"]["step"] >= 1


def test_commit_is_that_of_the_source_tree_or_unknown(tmp_path, monkeypatch):
    """Installed in a virtual environment inside somebody's repository: not that one's commit."""
    site = tmp_path / ".venv" / "lib" / "python3" / "site-packages" / "evenstream" / "run"
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(environment, "__file__", str(site / "environment.py"))
    assert environment._commit.__wrapped__() is None
