"""That the campaign notices what goes wrong; and, in the slow tests, a part of the campaign."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.cases import steps_made
from tests.helpers import live_kill_harness, warm
from tests.helpers.small_streams import class_stream, feed, small

ROOT = Path(__file__).parent.parent
KINDS = """
import os, signal, sys, time
from pathlib import Path
from campaign import processes, runner
from campaign.processes import Failure, Life

def fails(seed, folder):
    if seed % 2:
        raise Failure(f"seed {seed}")

def crashes(seed, folder):
    raise RuntimeError("a bug")

def dies(seed, folder):
    os.kill(os.getpid(), signal.SIGKILL)

def hangs(seed, folder):
    time.sleep(100)

def takes_long(seed, folder):
    time.sleep(1)

def holds(seed, folder):
    assert folder.is_dir()

runner.LONGEST, processes.slowness = 0.5, 6.0
attacks = (fails, crashes, dies, hangs, takes_long, holds)
kinds = [runner.Kind(one.__name__, one, each=10, goal=2) for one in attacks]
campaign = runner.Campaign(kinds, Path(sys.argv[1]))
campaign.run(seed=3, minutes=float(sys.argv[2]), jobs=4)
sys.exit(0 if campaign.conclude() else 1)
"""


def campaign(home, minutes=1.0):
    command = [sys.executable, "-c", KINDS, str(home), str(minutes)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_it_counts_what_fails_dies_and_hangs_and_runs_to_its_end(tmp_path):
    ended = campaign(tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert ended.returncode == 1, ended.stderr
    assert results["fails"]["failures"] == {"3000001": "seed 3000001"}
    assert {name: len(found["failures"]) for name, found in results.items()} == {
        "fails": 1, "crashes": 2, "dies": 2, "hangs": 2, "takes_long": 0, "holds": 0,
    }  # fmt: skip
    assert all((found["seeds"], found["attempts"]) == (2, 20) for found in results.values())
    assert "--repeat fails:3000001" in ended.stdout
    kept = {path.name for path in (tmp_path / "work").iterdir()}
    assert "fails-3000001" in kept and "fails-3000000" not in kept


def test_every_kind_gets_a_seed_whatever_the_time(tmp_path):
    campaign(tmp_path, minutes=0)
    results = json.loads((tmp_path / "results.json").read_text())
    assert {found["seeds"] for found in results.values()} == {1}


def test_a_pipe_goes_on_after_the_steps_that_were_saved(tmp_path):
    assert steps_made(tmp_path) == 0
    feed(small("er"), class_stream(3)).save(tmp_path)
    assert steps_made(tmp_path) == 3


def test_killed_while_a_learner_is_corrected_or_exported(tmp_path):
    """SIGKILL at random moments and before files change; the kind `kill-warm` does it all day."""
    ended = warm.run(live_kill_harness.owners, tmp_path)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()


@pytest.mark.slow
def test_two_minutes_of_the_campaign(tmp_path):
    command = [sys.executable, "-m", "campaign", "--minutes", "2", "--out", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
