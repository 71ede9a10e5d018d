"""kill -9 at random moments and in the middle of a save: resumed equals uninterrupted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


def harness(folder, kills, seed):
    command = [sys.executable, str(Path(__file__).parents[1] / "helpers" / "kill_harness.py")]
    ended = subprocess.run(
        [*command, str(folder), str(kills), str(seed)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = [int(number) for number in re.findall(r": (\d+)", ended.stdout)]
    assert len(counts) == 2, ended.stdout
    return counts


def test_killed_equals_uninterrupted(tmp_path):
    at_random, while_saving = harness(tmp_path, kills=6, seed=0)
    assert at_random >= 6
    assert while_saving >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_killed_equals_uninterrupted_at_length(tmp_path, seed):
    at_random, while_saving = harness(tmp_path, kills=25, seed=seed)
    assert at_random >= 25
    assert while_saving >= 15
