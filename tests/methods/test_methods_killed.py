"""Every method's run, killed with SIGKILL at random moments and in the middle of saves."""

import pytest

from evenstream.methods import METHODS
from tests.helpers import kill_harness, warm


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_killed_equals_uninterrupted(tmp_path, method):
    """Plain forms: `-las` adds only the window, which tests/run kills at length."""
    ended = warm.run(kill_harness.main, tmp_path, 4, 0, method)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()
    assert b"killed at random: 4" in ended.stdout
