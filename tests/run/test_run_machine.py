"""Freed memory is kept for the next step."""

import sys

import pytest

from tests.helpers import page_faults, warm


def faults(keep):
    ended = warm.run(page_faults.count, keep)
    assert ended.returncode == 0, ended.stderr.decode()
    return int(ended.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_memory_freed_in_one_step_is_used_again_in_the_next():
    assert faults(keep=True) < faults(keep=False) / 5
