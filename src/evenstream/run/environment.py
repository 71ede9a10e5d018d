"""The machine and the versions a result was made with."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from evenstream.files import write_atomically
from evenstream.version import __version__

ENVIRONMENT = "env.json"


def record_session(folder: Path, step: int) -> None:
    """Write `env.json`: the environment at the start, and what differed at each resume."""
    now = describe_environment()
    path = folder / ENVIRONMENT
    try:
        first = json.loads(path.read_text(encoding="utf-8"))
        sessions = first.setdefault("resumed", [])
        sessions.append({"step": step} | {k: v for k, v in now.items() if first.get(k) != v})
    except (OSError, ValueError, AttributeError, RecursionError):  # missing or unreadable
        first = now
    write_atomically(path, json.dumps(first, indent=1))


def describe_environment() -> dict[str, Any]:
    """Versions, processor and commit, for `env.json`."""
    import numpy
    import torch

    return {
        "evenstream": __version__,
        "commit": source_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": sys.argv,
    }


def cpu_name() -> str:
    """What the processor calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


@functools.cache
def source_commit() -> str | None:
    """The commit of the source tree this runs from; None for an installed package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # installed, perhaps inside a user's repository
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}  # as in a hook
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True, env=env
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
