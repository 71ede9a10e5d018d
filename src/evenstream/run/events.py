"""The event log of a run: one JSON object per line, rotated by size, truncated on resume."""

from __future__ import annotations

import itertools
import json
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from evenstream.errors import DamageWarning, some_of

ROTATE_BYTES = 16 * 2**20
LONGEST_EVENT = 64 * 2**10
"""Bytes at the end of a log that are sure to contain a complete line."""
EVALUATED = "evaluated"
ONLINE = "online"
EDIT = "edit"
"""The number of a correction among those of its learner."""
_NAME = "events.jsonl"
_FIRST = "events-0001.jsonl"
_FULL = re.compile(r"events-(\d+)\.jsonl")


class EventLog:
    """Appends to `events.jsonl`; when it is full it becomes `events-0001.jsonl` and so on.

    With `keep`, only this many full files are kept, the newest.
    """

    def __init__(
        self, folder: Path, rotate_bytes: int = ROTATE_BYTES, keep: int | None = None
    ) -> None:
        self._folder, self._rotate_bytes, self._keep = folder, rotate_bytes, keep
        self._file = (folder / _NAME).open("a", encoding="utf-8")

    def write(self, event: dict[str, Any]) -> None:
        """Add an event; it reaches the disk at the next `flush` at the latest."""
        self._file.write(json.dumps(event) + "\n")

    def flush(self, *, sync: bool = False) -> None:
        """Write out what is buffered (`sync`: past the system's cache); rotate a full file."""
        self._file.flush()
        if sync:
            os.fsync(self._file.fileno())
        if self._file.tell() < self._rotate_bytes:
            return
        self._file.close()
        full = _full_files(self._folder)
        number = _number(full[-1]) + 1 if full else 1
        current = self._folder / _NAME
        current.rename(self._folder / f"events-{number:04d}.jsonl")
        self._file = current.open("a", encoding="utf-8")
        if self._keep is not None:
            for oldest in full[: max(len(full) + 1 - self._keep, 0)]:
                oldest.unlink()

    def close(self) -> None:
        """Write out what is buffered, if possible, and close."""
        with suppress(OSError):  # `flush` reports what must not be lost
            self._file.close()


def event_files(folder: Path) -> list[Path]:
    """All files of the log, oldest first."""
    current = folder / _NAME
    return _full_files(folder) + ([current] if current.exists() else [])


class EventTail:
    """Reads what was added to a log since the last call, while a run keeps writing to it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file, self._offset = folder, 0, 0
        self.damaged = 0
        """Number of lines so far that are not events and were left out."""

    def read(self) -> list[dict[str, Any]]:
        """The new complete events; all of them again if the log was truncated."""
        events: list[dict[str, Any]] = []
        try:
            files = event_files(self._folder)
            if not self._is_there(files):
                self._file, self._offset, self.damaged = 0, 0, 0
            for file in files[self._file :]:
                with file.open("rb") as lines:
                    lines.seek(self._offset)
                    for line in lines:
                        if file is files[-1] and not line.endswith(b"\n"):
                            return events  # still being written
                        event = _parse(line)
                        if event is None:
                            self.damaged += 1
                        else:
                            events.append(event)
                        self._offset += len(line)
                if file is not files[-1]:
                    self._file, self._offset = self._file + 1, 0
        except FileNotFoundError:  # just being renamed
            pass
        return events

    def _is_there(self, files: list[Path]) -> bool:
        """Whether the part read so far is still there."""
        if not self._offset:
            return self._file < len(files)
        if self._file >= len(files):
            return False
        with files[self._file].open("rb") as file:
            file.seek(self._offset - 1)
            return file.read(1) == b"\n"


def last_step(folder: Path) -> int:
    """The step of the newest event that is on the disk; 0 if there is none."""
    return _last_step(event_files(folder))


def _last_step(files: list[Path]) -> int:
    for path in reversed(files):
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - LONGEST_EVENT, 0))
            for line in reversed(file.read().splitlines(keepends=True)):
                event = _parse(line)
                if event is not None:
                    return int(event["step"])
    return 0


def cut_back(folder: Path, step: int, tasks: int, edits: int = 0) -> None:
    """Drop all events after `step`, evaluations after `tasks` tasks, corrections after `edits`.

    They will be produced again from the checkpoint. Files are truncated in place, from the last one
    backwards, so that a crash in between loses nothing that should stay. Lines that are not events
    are skipped; if steps are missing in the newest file, there is a warning.
    """
    files = event_files(folder)
    steps: list[int] = []
    while files and not steps:
        file = files.pop()
        read = size = 0
        with file.open("rb") as lines:
            for line in lines:
                read += len(line)
                event = _parse(line)
                if event is not None and _stays(event, step, tasks, edits):
                    size = read
                    steps.append(event["step"])
        if not steps and file.name != _NAME:
            file.unlink()
        elif size < read:
            os.truncate(file, size)
        if not files and file.name not in (_NAME, _FIRST):  # older ones were removed
            return _tell_missing(folder, steps, step)
    _tell_missing(folder, [_last_step(files), *steps], step)


def _stays(event: dict[str, Any], step: int, tasks: int, edits: int) -> bool:
    ahead = event.get("event") == EVALUATED and event["task"] >= tasks
    ahead = ahead or event.get(EDIT, 0) > edits
    return bool(event["step"] <= step) and not ahead


def _tell_missing(folder: Path, found: list[int], step: int) -> None:
    """Warn about steps up to `step` that were logged but are no longer there."""
    known = sorted({*found, step + 1})
    gaps = [(one + 1, other - 1) for one, other in itertools.pairwise(known) if other - one > 1]
    if gaps:
        count = sum(last - first + 1 for first, last in gaps)
        where = [f"{a}" if a == b else f"{a} to {b}" for a, b in gaps]
        warnings.warn(
            f"the log in {folder} is damaged: {count} of the steps up to {step} are missing "
            f"({some_of(where)}); everything else is kept, and the results do not depend on it",
            DamageWarning,
            stacklevel=3,
        )


def _full_files(folder: Path) -> list[Path]:
    found = [file for file in folder.glob("events-*.jsonl") if _FULL.fullmatch(file.name)]
    return sorted(found, key=_number)


def _number(full: Path) -> int:
    return int(full.stem.removeprefix("events-"))


def _parse(line: bytes) -> dict[str, Any] | None:
    """The event on a line; None if the line is incomplete or holds something else."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = line.endswith(b"\n") and isinstance(event, dict) and _is_event(event)
    return event if whole else None


def _is_event(event: dict[str, Any]) -> bool:
    """Whether all fields read from an event have the right type."""
    several = event.get("accuracies", [])
    numbers = [event.get("loss"), event.get("accuracy")]
    numbers += several if isinstance(several, list) else ["none"]
    counts = [event.get("step"), event.get("task", 0), event.get(EDIT, 0)]
    return (
        all(type(count) is int and count >= 0 for count in counts)
        and all(number is None or type(number) in (int, float) for number in numbers)
        and (event.get("event") != EVALUATED or {"task", "accuracies"} <= event.keys())
    )
