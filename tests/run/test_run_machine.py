"""Freed memory is kept for the next step."""

import subprocess
import sys

import pytest

COUNT_FAULTS = """
import resource, sys
import numpy as np
from evenstream.run.machine import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
blocks = [8, 40, 100]  # MB; without being told, large blocks always go back to the system
def step():
    for size in blocks:
        np.ones(size * 2**20, dtype=np.uint8)
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how):
    command = [sys.executable, "-c", COUNT_FAULTS, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_memory_freed_in_one_step_is_used_again_in_the_next():
    assert page_faults("keep") < page_faults("give back") / 5
