"""How often a process gets memory from the system, for a process of its own (`warm.run`)."""

import resource

import numpy as np

from evenstream.run.machine import keep_freed_memory

BLOCKS = [8, 40, 100]
"""MB; without being told, large blocks always go back to the system."""


def step():
    for size in BLOCKS:
        np.ones(size * 2**20, dtype=np.uint8)


def count(keep):
    """Page faults of five steps after the first."""
    if keep:
        assert keep_freed_memory()
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
