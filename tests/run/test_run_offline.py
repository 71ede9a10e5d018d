"""Runs of several epochs, stopped in one of them and killed at a task end: as if uninterrupted."""

import pytest

from evenstream.checkpoint import read_checkpoint
from evenstream.interruption import Interrupted
from evenstream.learner.learner import Learner
from evenstream.policies.teachers import TaskEndTeacher
from evenstream.run.runner import resume_run, start_run
from tests.helpers.small_runs import StopAfter, outcome, small_config

EPOCHS, STEPS = 2, 5
"""Epochs of a task, steps of an epoch."""
OFFLINE = ["bic", "bic-las:mix=replay", "e2e:fine_tune_epochs=3", "il2m", "lucir-full"]
ONLINE = ["der++", "er", "er-ace", "er-las", "lwf-las"]


class Killed(Exception):
    """The process ends here."""


def kill(*args):
    raise Killed


@pytest.mark.parametrize("method", OFFLINE + ONLINE)
def test_stopped_and_killed_equals_uninterrupted(table, tmp_path, monkeypatch, method):
    """Stopped in the second task's second epoch, then killed as the last thing in its end."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    config = small_config(table, method, epochs=EPOCHS, batch=8, checkpoint_every=1000)
    start_run(config, whole)
    with pytest.raises(Interrupted):
        start_run(config, cut, stop=StopAfter(3 * STEPS + 2))
    learner = Learner(method)
    if learner.method.teacher:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(TaskEndTeacher, "on_task_end", kill)
            resume_run(cut)
        saved = read_checkpoint(cut / "checkpoint")["learner"]["progress"]
        assert saved["in_task"] and saved["task"] == 1
        if "second_pass" in learner.needs:
            assert saved["step"] == 4 * STEPS, "no checkpoint just before the task's end"
    resume_run(cut)
    assert outcome(cut) == outcome(whole)
