"""Work for Ray's processes: they find it by name, so it lives in a module of its own."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for processes that did not come from pytest

from evenstream.interruption import Interrupted
from evenstream.sweep.making import make_or_finish
from tests.helpers.killing import KillAt


def killed_at_step_9(job, stop):
    """A run whose first process does not live to see its end."""
    _, folder = job
    first = not (folder / "config.toml").exists()
    return make_or_finish(job, KillAt(9) if first else stop, keep=True)


def until_stopped(job, stop):
    """Works until it is asked to stop."""
    _, folder = job
    Path(folder).mkdir(parents=True)
    (folder / "begun").touch()
    give_up = time.monotonic() + 60
    while not stop.is_set():
        assert time.monotonic() < give_up, "nobody asked to stop"
        time.sleep(0.02)
    (folder / "saved").touch()
    raise Interrupted("saved")


def buggy(job, stop):
    raise ZeroDivisionError("a bug")
