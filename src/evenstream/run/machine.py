"""How a process that trains uses the machine."""

from __future__ import annotations

import ctypes

import torch

from evenstream.errors import InputError

MOST_THREADS = 1024
"""Upper limit on threads; the system kills a process that asks for too many."""
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of mallopt, from glibc's malloc.h."""
_NEVER = 2**31 - 1


def use_machine(threads: int) -> None:
    """Set the number of threads, and keep freed memory for the next step."""
    if not 1 <= threads <= MOST_THREADS:
        raise InputError(f"threads must be 1 or more, and {MOST_THREADS} at most, got {threads}")
    torch.set_num_threads(threads)
    keep_freed_memory()


def keep_freed_memory() -> bool:
    """Tell the C library not to return large blocks to the system when they are freed.

    A step frees its activations and the next one needs as many: returning them makes the system
    clear thousands of pages in every step (docs/appendix/performance.md). Returns whether that
    worked, which it does with glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, _NEVER))
