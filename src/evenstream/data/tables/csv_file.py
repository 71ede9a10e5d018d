"""Tables as CSV text, from files and pipes."""

from __future__ import annotations

import csv
import hashlib
import math
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenstream.data.tables.columns import Columns
from evenstream.data.tables.reader import Row, TableReader, closing_on_error, open_binary
from evenstream.errors import DataError
from evenstream.numerals import check_plain, read_number

_SEPARATORS = ",;\t"
_TRUTH = {"true": 1.0, "false": 0.0}
_MISSING = ("", "na", "n/a", "null", "none")
_LARGEST = float(np.finfo(np.float32).max)
_LONGEST = 1 << 17
"""Bytes of a row that runs over several lines; no single cell can have more, either."""


class CsvReader(TableReader):
    """Rows of CSV text with a header line; comma, semicolon or tab, as the header has it.

    Lines are taken one by one, so that a row can be learned before the next one exists. After
    each row `bytes`, `line` and `digest` say what has been read so far. If a quotation mark is not
    closed soon, only its own line is lost: the lines after it are read again, as rows.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        self.bytes, self.line, self.digest = 0, 0, hashlib.sha256()
        self.source = source
        self._begin(lines)
        while (header := self._pull()) is not None and not header.removeprefix(BOM_UTF8).strip():
            self._count([header])
        if header is None:
            raise DataError(f"{source} is empty; it needs a line with the names of the columns")
        self._separator = max(_SEPARATORS, key=lambda separator: header.count(separator.encode()))
        try:
            names = self._cells(header)
        except ValueError as error:
            raise DataError(f"{source}, line {self.line}: {error}") from None
        super().__init__(source, names)
        if _looks_like_data(self.names):
            line = header.decode("utf-8-sig").strip()
            raise DataError(
                f"{source} has no header: its first line is {line[:60]!r}; put a line with the "
                "names of the columns above it"
            )

    def rows(self, columns: Columns) -> Iterator[Row]:
        """The rows from here on."""
        places, label_place = columns.places(self.source, self.names)
        while (line := self._pull()) is not None:
            try:
                cells = self._cells(line)
                if not cells:  # a blank line
                    continue
                if len(cells) != len(self.names):
                    raise ValueError(f"{len(cells)} cells, but there are {len(self.names)} columns")
                values = _numbers(columns.features, [cells[place] for place in places])
                label = None if label_place is None else self.label(cells[label_place].strip())
            except ValueError as error:
                self.refuse(f"line {self.line}", str(error))
            else:
                yield values, label

    def _begin(self, lines: Iterable[bytes]) -> None:
        """Go on with these lines."""
        self._lines, self.unfinished = iter(lines), False
        self._ahead, self._ahead_bytes = deque[bytes](), 0
        self._closes: bool | None = None

    def _cells(self, line: bytes) -> list[str]:
        """The cells of the row that begins with a line, none of a blank one."""
        raw, encoding = [line], "utf-8" if self.line else "utf-8-sig"
        try:
            cells = self._parse(line.decode(encoding))
            if cells is None:
                raw += self._rest(line)
                cells = self._parse(b"".join(raw).decode(encoding))
        except UnicodeDecodeError:
            raise ValueError("is not UTF-8 text; save it as CSV in UTF-8") from None
        except csv.Error as error:
            raise ValueError(str(error)) from None
        finally:
            self._count(raw)
        return cells or []

    def _parse(self, text: str) -> list[str] | None:
        """The cells of a row, None if the last one is not closed; `csv.Error` if it is no row."""
        is_open = False

        def lines() -> Iterator[str]:
            nonlocal is_open
            yield text
            is_open = True

        reader = csv.reader(lines(), delimiter=self._separator, skipinitialspace=True, strict=True)
        try:
            return next(reader)
        except csv.Error:
            if is_open:
                return None
            raise

    def _rest(self, first: bytes) -> list[bytes]:
        """The lines after one that leaves a cell open, up to the one that closes it.

        The lines ahead all leave an open cell open, but for the last one if `_closes` is not None.
        That is so wherever the cell was opened: no line is looked at twice to find its end.
        """
        room = _LONGEST - len(first)
        while self._closes is None and self._ahead_bytes <= room:
            line = self._next()
            if line is None:
                break
            self._ahead.append(line)
            self._ahead_bytes += len(line)
            self._closes = self._closes_cell(line)
        if not self._closes or self._ahead_bytes > room:
            raise ValueError(
                f"a quotation mark opens a cell that is not closed (within {_LONGEST} bytes)"
            )
        rest = list(self._ahead)
        self._begin(self._lines)
        return rest

    def _closes_cell(self, line: bytes) -> bool | None:
        """Whether a line closes a cell opened before it; False if such a row cannot be read."""
        try:
            return None if self._parse('"' + line.decode()) is None else True
        except (csv.Error, UnicodeDecodeError):
            return False

    def _pull(self) -> bytes | None:
        if not self._ahead:
            return self._next()
        line = self._ahead.popleft()
        self._ahead_bytes -= len(line)
        if not self._ahead:
            self._closes = None
        return line

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


class CsvFile(CsvReader):
    """A CSV file, which can be left and gone on with later."""

    def __init__(self, path: Path) -> None:
        self._file = open_binary(path)
        with closing_on_error(self._file):
            super().__init__(self._file, str(path))

    def place(self) -> dict[str, Any]:
        """The bytes read so far: how many, their checksum, and the number of lines."""
        return {"bytes": self.bytes, "line": self.line, "sha256": self.digest.hexdigest()}

    def go_to(self, place: Mapping[str, Any]) -> None:
        """Go on after these bytes; `DataError` if only a part of a line is among them."""
        self._file.seek(place["bytes"] - 1)
        last, following = self._file.read(1), self._file.read(1)
        if last != b"\n" and following not in (b"", b"\r", b"\n"):
            raise DataError(
                f"{self.source}, line {place['line']}: it was read before all of it was written, "
                "so what was learned from it is not what it says. Write the rows below it, with "
                "the header, to a file of their own and go on with that one, or learn all of it "
                "again: with --again, or anew in another folder"
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


def _numbers(names: Sequence[str], cells: Sequence[str]) -> list[float]:
    """The cells as numbers that fit into 32 bits; a `ValueError` says which one is not."""
    try:
        check_plain("".join(cells))
        values = list(map(float, cells))
    except ValueError:
        values = [_number(name, cell) for name, cell in zip(names, cells, strict=True)]
    if not (math.isfinite(sum(values)) and min(values) >= -_LARGEST and max(values) <= _LARGEST):
        name, value = next(
            (name, value)
            for name, value in zip(names, values, strict=True)
            if not abs(value) <= _LARGEST
        )
        why = "is missing" if math.isnan(value) else f"is {value}, too large for 32-bit floats"
        raise ValueError(f"column {name!r} {why}; fill or drop it")
    return values


def _number(name: str, cell: str) -> float:
    word = cell.strip().lower()
    if word in _TRUTH:
        return _TRUTH[word]
    if word in _MISSING:
        return math.nan
    try:
        return read_number(cell, float)
    except ValueError:
        raise ValueError(
            f"column {name!r} is {cell[:60]!r}, not a number; encode text as numbers (digits 0 to "
            "9, decimals with a point), or leave the column out with ignore (--ignore NAME)"
        ) from None


def _looks_like_data(names: Sequence[str]) -> bool:
    """Whether there are numbers among the names, other than 0, 1, 2, ... or 1, 2, 3, ..."""
    numbers = list(filter(_is_number, names))
    counted = [list(map(str, range(first, first + len(numbers)))) for first in (0, 1)]
    return numbers not in counted


def _is_number(cell: str) -> bool:
    try:
        read_number(cell, float)
    except ValueError:
        return False
    return True
