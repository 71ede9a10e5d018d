"""Jobs for worker processes: a worker finds them by name, so they live in a module of their own."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # for processes that did not come from pytest

from evenstream.errors import EvenstreamError
from evenstream.interruption import Interrupted
from tests.helpers.killing import KillAt


def square(number, stop):
    """Refuses 13, has a bug at 14, is killed at 15, and takes too much memory at 16."""
    if number == 13:
        raise EvenstreamError("13 is refused")
    if number == 14:
        raise ZeroDivisionError("14 is a bug")
    if number == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 16:
        np.empty(1 << 50)
    return number * number, os.getpid()


def variable(name, stop):
    """Says what a variable of its environment is, and whose child it is."""
    return os.environ[name], os.getppid()


def until_stopped(path, stop):
    """Says that it has begun, works until it is asked to stop, then says how it ended."""
    folder, own = Path(path), f"{os.getpid()}-{time.monotonic_ns()}"
    (folder / f"begun-{own}").touch()
    give_up = time.monotonic() + 90
    while not stop.is_set():
        if time.monotonic() > give_up:
            raise AssertionError("nobody asked to stop")
        time.sleep(0.01)
    (folder / f"saved-{own}").touch()
    raise Interrupted("saved")


def killed_at_step_9(job, stop):
    """A run whose first process does not live to see its end."""
    from evenstream.run.runner import resume_run, start_run

    config, folder = job
    if not (folder / "config.toml").exists():
        return start_run(config, folder, stop=KillAt(9))
    return resume_run(folder, stop=stop)
