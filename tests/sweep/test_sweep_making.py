"""Sweeps: every run once, whatever happens to some of them."""

import json
import threading
import time
import warnings

import pytest

from evenstream.cli.main import main
from evenstream.errors import DataWarning, EvenstreamError, NotLearning
from evenstream.files import exclusive
from evenstream.interruption import Interrupted
from evenstream.run import many, runner
from evenstream.run.compare import make_or_finish as make_compared
from evenstream.run.config import CONFIG
from evenstream.run.runner import start_run
from evenstream.run.workers import Answer
from evenstream.sweep.backends import local
from evenstream.sweep.making import make_or_finish, work
from evenstream.sweep.plan import make_plan
from evenstream.sweep.store import LOCK, Store
from tests.helpers import warm
from tests.helpers.small_runs import StopAfter, outcome, save_table, small_config
from tests.helpers.sweep_samples import Heard, Here, small_experiment, write_experiment

NEVER = threading.Event()


def runs_of(folder, stream, **options):
    return make_plan(small_experiment(folder, stream, **options), scale="quick").runs()


def test_finished_runs_are_shared_and_never_made_again(table, tmp_path):
    """Two experiments with a cell in common; the second makes only what is missing."""
    store, here, heard = Store(tmp_path / "store"), Here(), Heard()
    first = runs_of(tmp_path, table, methods=("er", "er-las"))
    assert work(first, store, here.backend, listener=heard) == []
    assert here.asked == [("er", 6, 0), ("er-las", 6, 0)]
    assert heard.waited == [1, 0]
    assert [run.metrics["status"] for run in heard.runs] == ["finished"] * 2

    again, told = Here(), Heard()
    second = runs_of(tmp_path, table, methods=("er-las", "er-ace"), name="other")
    assert work(second, store, again.backend, listener=told) == []
    assert again.asked == [("er-ace", 6, 0)]
    assert list(told.done) == [store.folder(first[1]).name]
    assert len(list((tmp_path / "store" / "runs").iterdir())) == 3
    assert not (store.folder(first[1]) / "checkpoint").exists()


def test_a_run_of_a_sweep_is_the_same_as_one_alone(table, tmp_path):
    store, (config, _) = Store(tmp_path / "store"), runs_of(tmp_path, table)
    assert work([config], store, Here().backend, keep=True, listener=Heard()) == []
    start_run(config, tmp_path / "alone")
    assert outcome(store.folder(config)) == outcome(tmp_path / "alone")


def test_a_failing_method_is_recorded_and_tried_again_and_the_others_go_on(table, tmp_path):
    store, heard = Store(tmp_path / "store"), Heard()
    extra = '[[when]]\nmatch = { method = "er" }\nset = { lr = 1e30 }'  # its loss is not finite
    runs = runs_of(tmp_path, table, extra=extra)
    here = Here()
    (failed,) = work(runs, store, here.backend, retries=2, listener=heard)
    assert [name for name, *_ in here.asked] == ["er", "er-las", "er", "er"]
    assert failed.config.method == "er"
    assert [run.again for run in heard.runs if run.error] == [True, True, False]
    record = json.loads((failed.folder / "error.json").read_text())
    assert record["attempts"] == 3
    assert record["error"] == failed.error
    assert "the loss is" in record["error"]
    assert "Traceback" in record["traceback"]
    assert [store.status(config) for config in runs] == ["failed", "finished"]
    # The next sweep tries it again; its count goes on.
    work(runs, store, Here().backend, retries=0, listener=Heard())
    assert store.failure(runs[0])["attempts"] == 4


def test_a_bug_is_an_error_with_its_traceback(table, tmp_path, monkeypatch, capfd):
    def buggy(folder, stop):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("evenstream.run.runner.resume_run", buggy)
    store, (config, _) = Store(tmp_path / "store"), runs_of(tmp_path, table)
    (failed,) = work([config], store, Here().backend, retries=0, listener=Heard())
    assert failed.error == "ZeroDivisionError: a bug"
    assert "def buggy" not in failed.traceback
    assert "in buggy" in failed.traceback
    assert capfd.readouterr() == ("", "")


def test_a_run_that_always_kills_its_process_is_given_up(table, tmp_path):
    config, _ = runs_of(tmp_path, table)
    store = Store(tmp_path / "store")
    here = Here(*[Answer()] * 9)
    (failed,) = work([config], store, here.backend, listener=Heard())
    assert len(here.asked) == many.ATTEMPTS + 1
    assert store.failure(config)["error"] == f"its process was killed {many.ATTEMPTS + 1} times"
    assert failed.traceback is None


def test_stopped_runs_go_on_from_where_they_were(table, tmp_path):
    config, other = runs_of(tmp_path, table)
    folder = Store(tmp_path / "store").folder(config)
    with pytest.raises(Interrupted):
        make_or_finish((config, folder), StopAfter(9))

    def stopped(jobs, work, stop):
        yield jobs.popleft(), Answer()

    here = Here()
    backend = here.backend.__class__(1, stopped)
    with pytest.raises(Interrupted, match="the same command continues from here"):
        work([config, other], Store(tmp_path / "store"), backend, listener=Heard())
    work([config], Store(tmp_path / "store"), here.backend, keep=True, listener=Heard())
    start_run(config, tmp_path / "alone")
    assert outcome(folder) == outcome(tmp_path / "alone")
    assert json.loads((folder / "env.json").read_text())["resumed"][0]["step"] == 9


def test_settings_that_cannot_change_the_result_may_change(table, tmp_path):
    config = small_config(table)
    store = Store(tmp_path / "store")
    with pytest.raises(Interrupted):
        make_or_finish((config, store.folder(config)), StopAfter(9))
    other = small_config(table, checkpoint_every=3)
    assert work([config, other], store, Here().backend, listener=Heard()) == []
    assert len(list((store.root / "runs").iterdir())) == 1


@pytest.mark.parametrize("make", [make_compared, make_or_finish])
def test_warnings_name_their_run_and_do_not_advise_another_method(
    table, tmp_path, monkeypatch, make
):
    told = []

    def warned(*_, **__):
        told.extend(warnings.formatwarning(m, UserWarning, "", 0) for m in messages)

    messages = NotLearning("no more than chance", "try Learner()"), DataWarning("a row is bad")
    monkeypatch.setattr(runner, "start_run", warned)
    monkeypatch.setattr(runner, "resume_run", warned)
    before = warnings.formatwarning
    make((small_config(table, "er:tau=1", seed=3), tmp_path / "run"), NEVER)
    assert [line.partition("seed 3: ")[2] for line in told] == [
        "no more than chance\n",
        "a row is bad\n",
    ]
    assert told[0].startswith(f"warning: er:tau=1 on {table}") and warnings.formatwarning is before


def test_a_config_changed_by_hand_is_refused(table, tmp_path):
    config = small_config(table)
    folder = Store(tmp_path).folder(config)
    with pytest.raises(Interrupted):
        make_or_finish((config, folder), StopAfter(9))
    small_config(table, memory=3).write(folder)
    with pytest.raises(EvenstreamError, match="was changed or removed by hand; remove the folder"):
        make_or_finish((config, folder), NEVER)


def test_a_finished_run_without_its_config_fails_alone(table, tmp_path):
    store, configs = Store(tmp_path), [small_config(table), small_config(table, seed=1)]
    assert work(configs[:1], store, Here().backend, listener=Heard()) == []
    (store.folder(configs[0]) / CONFIG).unlink()
    (failed,) = work(configs, store, Here().backend, retries=0, listener=Heard())
    assert failed.config == configs[0] and "removed by hand; remove the folder" in failed.error
    assert store.metrics(configs[1]) is not None


def test_a_run_of_another_sweep_is_waited_for(table, tmp_path):
    config = small_config(table)
    folder = Store(tmp_path).folder(config)
    folder.mkdir(parents=True)
    (folder / LOCK).touch()
    found = []
    waiting = threading.Thread(target=lambda: found.append(make_or_finish((config, folder), NEVER)))
    with exclusive(folder / LOCK):
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert not (folder / "config.toml").exists()
        with pytest.raises(Interrupted, match="another process is working"):
            make_or_finish((config, folder), StopAfter(2))
    waiting.join(30)
    assert found[0]["status"] == "finished"


# ---- real processes ------------------------------------------------------------------------------


def test_kill_9_of_a_sweep_and_the_same_command_again(tmp_path, monkeypatch, capsys):
    """The parent is killed in mid-run; the same command makes the rest, mid-run included."""
    stream = save_table(tmp_path / "long.npz", per_class=200)
    file = write_experiment(tmp_path, stream, methods=("er-las",))
    out = tmp_path / "store"
    words = ["sweep", str(file), "--jobs", "1", "--cells", "memory=6", "--out", str(out), "--keep"]
    process = warm.start(main, words)
    try:
        give_up = time.monotonic() + 120
        while not list(out.glob("runs/*/checkpoint/*.json")):
            assert time.monotonic() < give_up
            assert process.is_alive()
            time.sleep(0.02)
    finally:
        process.kill()
        process.join()
    (begun,) = out.glob("runs/*")
    here = Here()  # without processes it is quicker
    monkeypatch.setattr(
        local, "work_off", lambda jobs, work, n, stop: here.work_off(jobs, work, stop)
    )
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("0 of 2 runs\n")
    assert json.loads((begun / "env.json").read_text())["resumed"][0]["step"] > 0
    plan = make_plan(small_experiment(tmp_path, stream, methods=("er-las",)), only=["memory=6"])
    for config in plan.runs():
        start_run(config, tmp_path / f"alone-{config.seed}")
        assert outcome(Store(out).folder(config)) == outcome(tmp_path / f"alone-{config.seed}")
