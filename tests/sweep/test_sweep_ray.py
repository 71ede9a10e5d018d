"""Sweeps on a real Ray cluster of this machine."""

import os
import threading
import time
from collections import deque
from contextlib import closing
from pathlib import Path

import pytest

from evenstream.errors import InputError
from evenstream.plugins import import_plugins
from evenstream.run.many import make_all
from evenstream.run.runner import start_run
from evenstream.sweep.backends import open_backend
from evenstream.sweep.making import work
from evenstream.sweep.store import Store
from tests.helpers import small_runs, sweep_jobs
from tests.helpers.small_runs import outcome, save_table, small_config
from tests.helpers.sweep_samples import Heard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what Ray's own threads and sockets leave behind
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return save_table(tmp_path_factory.mktemp("data") / "table.npz")


@pytest.fixture(scope="module")
def cluster():
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # or a busy machine starves them
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        ray.init(
            "local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=80 * 2**20,
        )
        yield ray
        ray.shutdown()


def test_results_are_those_of_this_machine(cluster, table, tmp_path):
    runs = [small_config(table, method, seed=s) for method in ("er", "er-las") for s in (0, 1)]
    runs += [small_config(table, lr=1e30)]
    store, heard = Store(tmp_path / "store"), Heard()
    with open_backend("ray", runs) as backend:
        assert backend.at_once == 2
        (failed,) = work(runs, store, backend, keep=True, retries=1, listener=heard)
    assert failed.config == runs[-1]
    assert store.failure(failed.config)["attempts"] == 2
    assert "Traceback" in store.failure(failed.config)["traceback"]
    for number, config in enumerate(runs[:-1]):
        start_run(config, tmp_path / str(number))
        assert outcome(store.folder(config)) == outcome(tmp_path / str(number))


def test_plugins_reach_the_workers(cluster, tmp_path, monkeypatch):
    """Those named after the cluster was started, also by a path that is good only here."""
    monkeypatch.chdir(Path(small_runs.__file__).parent)
    monkeypatch.setenv("EVENSTREAM_PLUGINS", "own_plugin.py")
    import_plugins(again=True)
    config = small_config("rev-blobs", "own-er-las", network="narrow")
    store = Store(tmp_path)
    with open_backend("ray", [config]) as backend:
        assert not work([config], store, backend, keep=True, retries=0, listener=Heard())
    assert "worst_task" in (store.folder(config) / "metrics.json").read_text()


def test_run_of_a_killed_worker_is_resumed(cluster, table, tmp_path):
    config = small_config(table)
    folder = tmp_path / "store" / Store(tmp_path).folder(config).name
    waiting = deque([(config, folder)])
    with open_backend("ray", [config], jobs=1) as backend:
        ending = backend.work_off(waiting, sweep_jobs.killed_at_step_9, threading.Event())
        (run,) = make_all(waiting, ending, retries=0)
    assert run.metrics["status"] == "finished"
    start_run(config, tmp_path / "alone")
    assert outcome(folder) == outcome(tmp_path / "alone")


def test_request_to_stop(cluster, table, tmp_path):
    """Those under way save themselves; one that waits for a free core is not waited for."""
    jobs = deque((small_config(table, seed=n), tmp_path / str(n)) for n in range(4))
    stop = threading.Event()

    def act():
        give_up = time.monotonic() + 120
        while len(list(tmp_path.glob("*/begun"))) < 2 and time.monotonic() < give_up:
            time.sleep(0.05)
        stop.set()

    threading.Thread(target=act).start()
    with (
        open_backend("ray", [job[0] for job in jobs], jobs=3) as backend,
        closing(backend.work_off(jobs, sweep_jobs.until_stopped, stop)) as ending,
    ):
        answers = [answer for _, answer in ending]
    assert all(answer.result is None and answer.error is None for answer in answers)
    assert len(answers) == 3
    assert len(list(tmp_path.glob("*/saved"))) == 2
    assert len(jobs) == 1


def test_a_cluster_that_is_not_there_is_told_at_once():
    from evenstream.sweep.backends.ray_backend import connect

    with pytest.raises(InputError, match=r"no Ray cluster .* at 127.0.0.1:1: .*`ray start --head`"):
        connect("127.0.0.1:1")


def test_bugs_are_told(cluster, table, tmp_path):
    config = small_config(table)
    waiting = deque([(config, tmp_path / "run")])
    with open_backend("ray", [config]) as backend:
        ending = backend.work_off(waiting, sweep_jobs.buggy, threading.Event())
        (run,) = make_all(waiting, ending, retries=0)
    assert run.error == "ZeroDivisionError: a bug"
    assert "in buggy" in run.traceback


class Unknown:
    """Work that the cluster's machines have no code for."""

    def __reduce__(self):
        return (__import__, ("a_module_that_is_nowhere",))


def test_workers_that_cannot_start_say_why(cluster, table, tmp_path):
    config = small_config(table)
    waiting = deque([(config, tmp_path / "run")])
    with (
        pytest.warns(UserWarning, match="could not start .*a_module_that_is_nowhere"),
        open_backend("ray", [config]) as backend,
    ):
        ending = backend.work_off(waiting, Unknown(), threading.Event())
        (run,) = make_all(waiting, ending, retries=0)
    assert run.error == "its process was killed 4 times"
