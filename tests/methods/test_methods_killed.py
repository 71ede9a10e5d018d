"""Every method's run, killed with SIGKILL at random moments and in the middle of saves."""

import subprocess
import sys
from pathlib import Path

import pytest

from evenstream.methods import METHODS

HARNESS = Path(__file__).parents[1] / "helpers" / "kill_harness.py"


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_killed_equals_uninterrupted(tmp_path, method):
    """Plain forms: `-las` adds only the window, which tests/run kills at length."""
    command = [sys.executable, str(HARNESS), str(tmp_path), "4", "0", method]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "killed at random: 4" in ended.stdout
