"""Worker processes: answers, errors, sudden deaths, requests to stop."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import closing
from pathlib import Path

import pytest

from evenstream.errors import InputError
from evenstream.run.workers import how_many, work_off
from tests.helpers import worker_jobs

HERE = Path(__file__).parents[2]


def wait_for(condition, seconds=90):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "waited too long"
        time.sleep(0.01)


def test_answers_errors_and_deaths():
    jobs = deque([2, 13, 3, 14, 15, 16, 4, 5])
    flag = threading.Event()
    answers = {}
    with closing(work_off(jobs, worker_jobs.square, 2, flag)) as ended:
        for job, answer in ended:
            answers[job] = answer
            if job == 15:
                jobs.append(6)  # as for a run that is to be tried again
    assert {job: answers[job].result[0] for job in (2, 3, 4, 5, 6)} == {
        2: 4, 3: 9, 4: 16, 5: 25, 6: 36
    }  # fmt: skip
    assert answers[13].error == "13 is refused"
    assert answers[14].error == "ZeroDivisionError: 14 is a bug"
    assert "worker_jobs.py" in answers[14].traceback  # for whoever wrote it
    assert "too little memory" in answers[16].error
    assert answers[15].result is None
    assert answers[15].error is None
    # The death of one did not cost the other its life, and errors cost nobody anything.
    assert len({answers[job].result[1] for job in (2, 3, 4, 5, 6)}) <= 3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each worker starts by itself")
def test_workers_are_forked_from_one_process_with_the_environment_of_today(monkeypatch):
    answers = []
    for value in ("first", "second"):
        monkeypatch.setenv("EVENSTREAM_TEST", value)
        with closing(
            work_off(deque(["EVENSTREAM_TEST"]), worker_jobs.variable, 1, threading.Event())
        ) as ended:
            answers += [answer.result for _, answer in ended]
    assert [value for value, _ in answers] == ["first", "second"]
    (server,) = {parent for _, parent in answers}
    assert server != os.getpid()
    threads = Path(f"/proc/{server}/task")
    assert len(list(threads.iterdir())) == 1  # a thread that holds a lock would hang its forks


def test_as_many_as_there_are_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)))
    monkeypatch.setattr("os.cpu_count", lambda: 64)  # those of the whole machine do not count
    assert [how_many(0, threads) for threads in (1, 2, 4, 8)] == [6, 3, 1, 1]
    assert how_many(0, 1, cores=40) == 40  # of a cluster
    assert how_many(9, 4) == 9  # asked for


def test_no_more_than_there_are_open_files_for(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)))
    limit = (25, 25)
    monkeypatch.setattr("resource.getrlimit", lambda kind: limit)
    assert how_many(0, 1) == how_many(3, 1) == 3  # in place of 6
    with pytest.raises(InputError, match=r"4 runs .* open files.*`ulimit -n`.*3 at most"):
        how_many(4, 1)
    limit = (16, 16)
    with pytest.raises(InputError, match=r"open files.*`ulimit -n`"):
        how_many(0, 1)
    limit, raised = (16, 1000), []
    monkeypatch.setattr("resource.setrlimit", lambda kind, limits: raised.append(limits))
    assert how_many(0, 1) == 6 and raised == [(1000, 1000)]


def test_request_to_stop(tmp_path):
    """SIGTERM to a worker stops its job and no other; the flag stops all, and none is begun."""
    jobs = deque([str(tmp_path)] * 4)
    flag = threading.Event()
    with closing(work_off(jobs, worker_jobs.until_stopped, 2, flag)) as ended:

        def act():
            wait_for(lambda: count("begun") == 2)
            first = next(tmp_path.glob("begun-*")).name.split("-")[1]
            os.kill(int(first), signal.SIGTERM)
            wait_for(lambda: count("begun") == 3)
            time.sleep(0.1)
            assert count("saved") == 1
            flag.set()

        def count(what):
            return len(list(tmp_path.glob(f"{what}-*")))

        actor = threading.Thread(target=act)
        actor.start()
        answers = [answer for _, answer in ended]
        actor.join()
    assert all(answer.result is None and answer.error is None for answer in answers)
    assert count("saved") == len(answers) == 3
    assert len(jobs) == 1


def test_a_bug_is_shown_with_its_traceback(tmp_path):
    """Workers write where the command writes that started them."""
    script = tmp_path / "parent.py"
    script.write_text(f"""
import sys, threading
sys.path.insert(0, {str(HERE)!r})
from collections import deque
from tests.helpers import worker_jobs
from evenstream.run.workers import work_off
if __name__ == "__main__":
    list(work_off(deque([14]), worker_jobs.square, 1, threading.Event()))
""")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert "Traceback" in ended.stderr and "14 is a bug" in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each worker starts by itself")
@pytest.mark.parametrize(("number", "survives"), [(signal.SIGINT, True), (signal.SIGKILL, False)])
def test_signals_while_the_process_that_workers_are_forked_from_starts(tmp_path, number, survives):
    """Ctrl-C does not reach it; if it is killed, there is another."""
    script = tmp_path / "parent.py"
    script.write_text(f"""
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in background
sys.path.insert(0, {str(HERE)!r})
from collections import deque
from multiprocessing.forkserver import _forkserver
from tests.helpers import worker_jobs
from evenstream.run.workers import warm_up, work_off
if __name__ == "__main__":
    warm_up()
    server = _forkserver._forkserver_pid
    threading.Timer(0.3, os.kill, (server, {int(number)})).start()
    for _, answer in work_off(deque([3]), worker_jobs.square, 1, threading.Event()):
        print(answer.result[0], _forkserver._forkserver_pid == server)
""")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["9", str(survives)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_do_not_outlive_their_parent(tmp_path, number):
    """Killed or interrupted twice, the parent leaves no process that goes on writing."""
    code = f"""
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in background
sys.path.insert(0, {str(HERE)!r})
from collections import deque
from tests.helpers import worker_jobs
from evenstream.run.workers import work_off
if __name__ == "__main__":
    list(work_off(deque([{str(tmp_path)!r}]), worker_jobs.until_stopped, 1, threading.Event()))
"""
    script = tmp_path / "parent.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(tmp_path.glob("begun-*")))
        parent.send_signal(number)
        wait_for(lambda: list(tmp_path.glob("saved-*")))
        worker = int(next(tmp_path.glob("saved-*")).name.split("-")[1])
        wait_for(lambda: not Path(f"/proc/{worker}").exists() or is_zombie(worker))
    finally:
        parent.kill()
        parent.wait()


def is_zombie(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True
