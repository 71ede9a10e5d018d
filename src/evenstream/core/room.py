"""Checks that there is enough memory before it is allocated."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path

import torch

from evenstream.errors import InputError


def check_room(what: str, needed: int, device: torch.device) -> None:
    """Reject what needs more memory than is left; devices other than the CPU do so themselves."""
    if device.type != "cpu":
        return
    left = bytes_left()
    if needed > left:
        room = f"{needed / 1e9:,.1f} GB of memory, and {left / 1e9:,.1f} GB are left here"
        raise InputError(f"{what} would need {room}; keep fewer")


def bytes_left() -> float:
    """Free memory; the total, or infinity, where the system does not say."""
    with suppress(OSError):
        told = Path("/proc/meminfo").read_text(encoding="ascii", errors="replace")
        found = re.findall(r"(?:MemAvailable|SwapFree): *(\d+)", told)
        if found:
            return 1024 * sum(map(int, found))
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf
