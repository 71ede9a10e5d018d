"""A disk without room: nothing is lost that was there, and the run goes on when there is."""

import errno
import resource

import pytest

from evenstream.checkpoint import read_checkpoint
from evenstream.errors import EvenstreamError
from evenstream.run import runner
from evenstream.run.runner import resume_run, start_run
from tests.helpers.small_runs import StopAfter, names, outcome, small_config


@pytest.fixture
def full_disk():
    """A limit on the size of files, set by a real system call: writing beyond it fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_disk_that_is_full_from_the_start(table, tmp_path, full_disk):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    full_disk(0)
    with pytest.raises(EvenstreamError, match="cannot write to"):
        start_run(small_config(table), tmp_path / "run")
    full_disk(unlimited)  # at once: pytest's own output may go to a file
    assert names(tmp_path) == []


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
    [
        (20_000, "cannot write a checkpoint.*then `evenstream resume"),
        (1000, "cannot write to .*free some space"),
    ],
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
