"""The folder of a run or a comparison: claiming a new one, and what a finished one says."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import Any, Protocol

from evenstream.errors import EvenstreamError
from evenstream.files import TEMPORARY
from evenstream.run.config import COMPARISON, CONFIG, PRETRAINING

METRICS = "metrics.json"
METRICS_FORMAT = 1
"""Its version."""
CHECKPOINTS = "checkpoint"


class _Writes(Protocol):
    """The settings of a run or of a comparison."""

    def write(self, folder: Path) -> None: ...


def claim_folder(out: Path, settings: _Writes) -> None:
    """Make the folder and write the settings into it; refuse one that holds something already."""
    new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        names = {file.name for file in out.iterdir() if file.suffix != TEMPORARY}
        if not names:
            settings.write(out)
            return
    except OSError as error:
        if new:
            with contextlib.suppress(OSError):
                out.rmdir()
        raise EvenstreamError(f"cannot write to {out}: {error}; choose another --out") from None
    kinds = {CONFIG: "run", COMPARISON: "comparison", PRETRAINING: "pre-training"}
    for name, kind in kinds.items():
        if name in names:
            raise EvenstreamError(
                f"{out} already holds a {kind}; continue it with `{resume_command(out)}` "
                "or choose another --out"
            )
    raise EvenstreamError(f"{out} is not empty; choose another --out")


def resume_command(out: Path) -> str:
    """The command that continues a run, a comparison or a pre-training."""
    return f"evenstream resume {shlex.quote(str(out))}"


def read_metrics(out: Path) -> dict[str, Any] | None:
    """The metrics of a run, or None if it has not written any yet."""
    try:
        found = json.loads((out / METRICS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def finished_metrics(out: Path) -> dict[str, Any] | None:
    """The metrics of a run that is finished, else None; also if they are damaged."""
    found = read_metrics(out) or {}
    whole = all(name in found or name in _NEW for name in _KINDS) and all(
        isinstance(found.get(name), kinds) for name, kinds in _KINDS.items()
    )
    return found if whole and found["status"] == "finished" else None


_NUMBER, _NONE = (int, float), (type(None),)
_KINDS: dict[str, tuple[type, ...]] = {
    "status": (str,),
    "method": (str,),
    "seed": (int,),
    "A_T": _NUMBER + _NONE,
    "F_T": _NUMBER + _NONE,
    "A_AUC": _NUMBER + _NONE,
    "online": (dict, *_NONE),
    "steps": (int,),
    "train_seconds": _NUMBER,
    "eval_seconds": _NUMBER,
    "samples_per_second": _NUMBER + _NONE,
    "skipped_train": (dict, *_NONE),
    "skipped_test": (dict, *_NONE),
    "dtype": (str,),
}
"""What the commands say of a finished run."""
_NEW = {"A_AUC", "online", "skipped_train", "skipped_test"}
"""What runs of earlier versions do not have."""
