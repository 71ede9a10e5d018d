"""Runs that are stopped or crash, and go on as if they had not."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream.checkpoint import read_checkpoint, write_checkpoint
from evenstream.errors import EvenstreamError
from evenstream.interruption import Interrupted
from evenstream.learner.learner import Learner
from evenstream.run import runner
from evenstream.run.folder import read_metrics
from evenstream.run.runner import resume_run, start_run
from tests.helpers.run_cases import CASES
from tests.helpers.small_runs import METRIC_TIMES, StopAfter, outcome, read_events, small_config


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


def check_stopped(whole, stops, out):
    config, expected = whole
    run_with_stops(config, out, stops)
    assert outcome(out) == expected


@settings(max_examples=20)
@given(
    case=st.sampled_from(sorted(CASES)),
    stops=st.lists(st.integers(1, 20), min_size=1, max_size=3),
)
def test_stopped_equals_uninterrupted(case, stops, whole, tmp_path_factory):
    check_stopped(whole(case), stops, tmp_path_factory.mktemp("stopped") / "run")


@pytest.mark.slow
@settings(max_examples=300)
@given(
    case=st.sampled_from(sorted(CASES)),
    stops=st.lists(st.integers(1, 20), min_size=1, max_size=8),
)
def test_stopped_equals_uninterrupted_at_length(case, stops, whole, tmp_path_factory):
    check_stopped(whole(case), stops, tmp_path_factory.mktemp("stopped") / "run")


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


def test_loss_that_is_not_finite_ends_the_run_without_losing_it(table, tmp_path):
    with pytest.raises(EvenstreamError, match="the loss is"):
        start_run(small_config(table, lr=1e30, checkpoint_every=1), tmp_path / "run")
    assert read_checkpoint(tmp_path / "run" / "checkpoint")["learner"]["progress"]["step"] >= 1
