"""The folder of a run or a comparison: claiming a new one, and what a finished one says."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Protocol

from evenstream.errors import EvenstreamError
from evenstream.files import TEMPORARY, object_or_none
from evenstream.run.config import COMPARISON, CONFIG, PRETRAINING
from evenstream.run.metrics_file import METRICS, Metrics

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


def read_metrics(out: Path) -> Metrics | None:
    """The metrics of a run, or None if it has not written any yet."""
    found = object_or_none(out / METRICS)
    return None if found is None else Metrics(found)


def finished_metrics(out: Path) -> Metrics | None:
    """The metrics of a run that is finished, else None; also if they are damaged."""
    found = read_metrics(out)
    return found if found is not None and found.complete and found.finished else None
