"""The event log of a run: one JSON object a line, rotated by size, cut back on resume."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROTATE_BYTES = 16 * 2**20
LONGEST_EVENT = 64 * 2**10
"""Bytes at the end of a log in which there is a whole line, surely."""
EVALUATED = "evaluated"
ONLINE = "online"
_NAME = "events.jsonl"


class EventLog:
    """Appends to `events.jsonl`; when it is full it becomes `events-0001.jsonl` and so on.

    With `keep`, only so many full files are kept, the newest.
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
        """Flush and close."""
        self._file.close()


def event_files(folder: Path) -> list[Path]:
    """All files of the log, oldest first."""
    current = folder / _NAME
    return _full_files(folder) + ([current] if current.exists() else [])


class EventTail:
    """Reads what was added to a log since the last look, while a run goes on writing to it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file, self._offset = folder, 0, 0

    def read(self) -> list[dict[str, Any]]:
        """The new whole events; all of them again if the log was cut back."""
        events: list[dict[str, Any]] = []
        try:
            files = event_files(self._folder)
            if not self._is_there(files):
                self._file, self._offset = 0, 0
            for file in files[self._file :]:
                with file.open("rb") as lines:
                    lines.seek(self._offset)
                    for line in lines:
                        event = _parse(line)
                        if event is None:
                            return events
                        events.append(event)
                        self._offset += len(line)
                if file is not files[-1]:
                    self._file, self._offset = self._file + 1, 0
        except FileNotFoundError:  # renamed at this very moment
            pass
        return events

    def _is_there(self, files: list[Path]) -> bool:
        """Whether what was read last still ends where it ended."""
        if not self._offset:
            return self._file < len(files)
        if self._file >= len(files):
            return False
        with files[self._file].open("rb") as file:
            file.seek(self._offset - 1)
            return file.read(1) == b"\n"


def last_step(folder: Path) -> int:
    """The step of the newest event that is on the disk; 0 if there is none."""
    for path in reversed(event_files(folder)):
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - LONGEST_EVENT, 0))
            for line in reversed(file.read().splitlines(keepends=True)):
                event = _parse(line)
                if event is not None:
                    return int(event["step"])
    return 0


def cut_back(folder: Path, step: int, tasks: int) -> None:
    """Drop all events after `step`, and evaluations beyond the first `tasks` tasks.

    They will be made again from the checkpoint. Files are shortened in place, from the last one
    backwards, so that a crash in between loses nothing that is to stay.
    """
    for file in reversed(event_files(folder)):
        size = 0
        with file.open("rb") as lines:
            for line in lines:
                event = _parse(line)
                if event is None or event["step"] > step:
                    break
                if event.get("event") == EVALUATED and event["task"] >= tasks:
                    break
                size += len(line)
        if not size and file.name != _NAME:
            file.unlink()
        elif size < file.stat().st_size:
            os.truncate(file, size)
        if size:
            return


def _full_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("events-*.jsonl"), key=_number)


def _number(full: Path) -> int:
    return int(full.stem.removeprefix("events-"))


def _parse(line: bytes) -> dict[str, Any] | None:
    """The event on a line; None if the line is not whole."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    whole = line.endswith(b"\n") and isinstance(event, dict) and "step" in event
    return event if whole else None
