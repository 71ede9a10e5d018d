"""The event log of a run: one JSON object a line, rotated by size, cut back on resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROTATE_BYTES = 16 * 2**20
_NAME = "events.jsonl"


class EventLog:
    """Appends to `events.jsonl`; when it is full it becomes `events-0001.jsonl` and so on."""

    def __init__(self, folder: Path, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._folder, self._rotate_bytes = folder, rotate_bytes
        self._file = (folder / _NAME).open("a", encoding="utf-8")

    def write(self, event: dict[str, Any]) -> None:
        """Add an event; it reaches the disk at the next `flush` at the latest."""
        self._file.write(json.dumps(event) + "\n")

    def flush(self) -> None:
        """Write out what is buffered, and start a new file if this one has grown too large."""
        self._file.flush()
        if self._file.tell() < self._rotate_bytes:
            return
        self._file.close()
        number = len(event_files(self._folder))
        current = self._folder / _NAME
        current.rename(self._folder / f"events-{number:04d}.jsonl")
        self._file = current.open("a", encoding="utf-8")

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


def event_files(folder: Path) -> list[Path]:
    """All files of the log, oldest first."""
    current = folder / _NAME
    return sorted(folder.glob("events-*.jsonl")) + ([current] if current.exists() else [])


def read_events(folder: Path) -> list[dict[str, Any]]:
    """All events of a run in order; a line cut by a crash ends the log."""
    events = []
    for file in event_files(folder):
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                return events
    return events


def cut_back(folder: Path, step: int) -> None:
    """Drop every event after `step`: they will be made again from the checkpoint."""
    for file in reversed(event_files(folder)):
        kept = []
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            try:
                if json.loads(line)["step"] > step:
                    break
            except (ValueError, KeyError):
                break
            kept.append(line)
        if not kept and file.name != _NAME:
            file.unlink()
        else:
            file.write_text("".join(kept), encoding="utf-8")
