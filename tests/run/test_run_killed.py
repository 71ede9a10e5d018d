"""kill -9 at random moments and in the middle of a save: resumed equals uninterrupted."""

import re

import pytest

from tests.helpers import kill_harness, warm


def harness(folder, kills, seed):
    ended = warm.run(kill_harness.main, folder, kills, seed)
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()
    counts = [int(number) for number in re.findall(rb": (\d+)", ended.stdout)]
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
