"""Where runs live: each in a folder named after its configuration, so that none is made twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from evenstream.errors import EvenstreamError
from evenstream.files import exclusive, object_or_none, write_atomically
from evenstream.run.config import RunConfig
from evenstream.run.folder import finished_metrics
from evenstream.run.many import Ended
from evenstream.run.metrics_file import Metrics
from evenstream.run.sameness import run_key

LOCK = "lock"
"""Held by the process that works on a run."""
ERROR = "error.json"

Status = Literal["finished", "failed", "running", "waiting"]


class Store:
    """A folder of runs that any number of experiments share."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self) -> None:
        """Make the folder, or say at once, and not for every run, that it cannot be written to."""
        runs = self.root / "runs"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            if not os.access(runs, os.W_OK):
                raise PermissionError(f"no permission to write to {runs}")
        except OSError as error:
            raise EvenstreamError(
                f"cannot write to {self.root}: {error.strerror or error}; choose another --out"
            ) from None

    def folder(self, config: RunConfig) -> Path:
        """Where a run lives, or would."""
        return self.root / "runs" / run_key(config)

    def metrics(self, config: RunConfig) -> Metrics | None:
        """The metrics of a run that is finished, else None."""
        folder = self.folder(config)
        found = finished_metrics(folder)
        return found if found is not None and holds_its_run(folder) else None

    def status(self, config: RunConfig) -> Status:
        """What has become of a run, in whichever process."""
        folder = self.folder(config)
        if self.metrics(config) is not None:
            return "finished"
        if (folder / LOCK).exists():
            try:
                with exclusive(folder / LOCK, patience=0):
                    pass
            except EvenstreamError:
                return "running"
        return "waiting" if self.failure(config) is None else "failed"

    def failure(self, config: RunConfig) -> dict[str, Any] | None:
        """The error, traceback and number of attempts of a run that failed last time."""
        return object_or_none(self.folder(config) / ERROR)

    def record(self, run: Ended) -> None:
        """Keep the error of a run that failed; forget the one before a run that did not."""
        file = run.folder / ERROR
        if run.error is None:
            file.unlink(missing_ok=True)
            return
        before = self.failure(run.config) or {}
        failure = {
            "error": run.error,
            "traceback": run.traceback,
            "attempts": before.get("attempts", 0) + 1,
        }
        run.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(failure, indent=1))

    def finished(self) -> Iterator[tuple[RunConfig, Metrics]]:
        """All runs that are finished."""
        for folder in sorted((self.root / "runs").glob("*")):
            with suppress(EvenstreamError):  # of another version, or not a run
                found = finished_metrics(folder)
                if found is not None:
                    yield RunConfig.read(folder), found


def holds_its_run(folder: Path) -> bool:
    """Whether the settings in a folder are there, and still those that its name stands for."""
    try:
        return run_key(RunConfig.read(folder)) == folder.name
    except EvenstreamError:
        return False
