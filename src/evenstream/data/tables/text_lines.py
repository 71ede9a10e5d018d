"""Tables as lines of text, with an exact record of what has been read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenstream.data.tables.reader import (
    Batch,
    Row,
    TableReader,
    closing_on_error,
    open_binary,
)
from evenstream.data.tables.roles import Columns
from evenstream.errors import DataError


class LineReader(TableReader):
    """Rows of text, taken line by line, so that a row can be learned before the next one exists.

    After each row, `bytes`, `line` and `digest` describe what has been read so far.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        self.source = source
        self._begin(lines)
        self.start_counting()

    def start_counting(self) -> None:
        """Start with nothing read."""
        self.bytes, self.line, self.digest = 0, 0, hashlib.sha256()

    def stack(self, batch: Sequence[Row], columns: Columns) -> Batch:
        """Rows as one array of inputs and a list of labels."""
        values, labels = zip(*batch, strict=True)
        return columns.how.encode_rows(values), list(labels)

    def _begin(self, lines: Iterable[bytes]) -> None:
        """Continue with these lines."""
        self._lines, self.unfinished = iter(lines), False

    def _next(self) -> bytes | None:
        line = None if self.unfinished else next(self._lines, None)
        if line is not None and self.may_grow and not line.endswith(b"\n"):
            self.unfinished = True
            return None
        return line

    def _count(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self.bytes, self.line = self.bytes + len(line), self.line + 1
            self.digest.update(line)


class LineFile(LineReader):
    """A file of lines that can be left and resumed later."""

    def __init__(self, path: Path) -> None:
        self._file = open_binary(path)
        with closing_on_error(self._file):
            super().__init__(self._file, str(path))

    def place(self) -> dict[str, Any]:
        """The number of bytes read so far, their checksum, and the number of lines."""
        return {"bytes": self.bytes, "line": self.line, "sha256": self.digest.hexdigest()}

    def go_to(self, place: Mapping[str, Any]) -> None:
        """Continue after these bytes; raises `DataError` if they end within a line."""
        self._file.seek(place["bytes"] - 1)
        last, following = self._file.read(1), self._file.read(1)
        if last != b"\n" and following not in (b"", b"\r", b"\n"):
            raise DataError(
                f"{self.source}, line {place['line']}: it was read before all of it was written, "
                "so what was learned from it is not what it says. Write the rows below it, with "
                "the header, to a separate file and continue with that one, or learn all of it "
                "again: with --again, or from scratch in another folder"
            )
        self.digest = self._digest_of(place["bytes"])
        self.bytes, self.line = place["bytes"], place["line"]
        self._begin(self._file)

    def recognises(self, place: Mapping[str, Any]) -> bool:
        """Whether the file begins with the same bytes; it may have grown since."""
        if "bytes" not in place:
            return False
        same: bool = self._digest_of(place["bytes"]).hexdigest() == place["sha256"]
        self._file.seek(self.bytes)
        self._begin(self._file)
        return same

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _digest_of(self, size: int) -> hashlib._Hash:
        """The hash of the first bytes; leaves the file right after them."""
        self._file.seek(0)
        digest = hashlib.sha256()
        while size > 0 and (chunk := self._file.read(min(size, 1 << 20))):
            digest.update(chunk)
            size -= len(chunk)
        return digest
