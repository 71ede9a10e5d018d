"""The folder of a report: claimed only if new or written by us, and never left incomplete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from evenstream.errors import EvenstreamError
from evenstream.files import TEMPORARY, write_atomically

MARK = "report.json"
"""Lists the files of a report; only a folder that has it, or an empty one, is written to."""
MADE_BY = "evenstream: tables of runs"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*\.(md|csv|tex|html)")


def write_folder(out: Path, files: Mapping[str, str]) -> None:
    """Write the files of a report, replacing those of the previous report.

    Raises:
        EvenstreamError: the folder holds something that is not a report, or cannot be written to.
    """
    for name in files:
        if not _NAME.fullmatch(name):
            raise EvenstreamError(f"{name!r} cannot be the name of a report's file")
    check_folder(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        before = _files(out) or set()
        write_atomically(out / MARK, _mark({*before, *files}))
        for name, text in files.items():
            write_atomically(out / name, text)
        for name in before - files.keys():
            (out / name).unlink(missing_ok=True)
        write_atomically(out / MARK, _mark(files))
    except OSError as error:
        raise EvenstreamError(f"cannot write to {out}: {error}; choose another --out") from None


def check_folder(out: Path) -> None:
    """Reject a folder that holds anything but a report."""
    if not out.exists():
        return
    if not out.is_dir():
        raise EvenstreamError(f"{out} is a file; choose another --out")
    others = {file.name for file in out.iterdir() if file.suffix != TEMPORARY}
    if others and _files(out) is None:
        raise EvenstreamError(
            f"{out} is not empty and holds no report of this command; choose another --out"
        )


def _files(out: Path) -> set[str] | None:
    """The files of the previous report, if there is one; names cannot lie outside the folder."""
    try:
        found = json.loads((out / MARK).read_text(encoding="utf-8"))
        if found["made by"] != MADE_BY:
            return None
        return {str(name) for name in found["files"] if _NAME.fullmatch(str(name))}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _mark(files: Iterable[str]) -> str:
    return json.dumps({"made by": MADE_BY, "files": sorted(files)}, indent=1)
