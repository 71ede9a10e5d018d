"""Tables as CSV text, from files and pipes."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from evenstream.data.tables.reader import Row, TableReader
from evenstream.data.tables.roles import Columns
from evenstream.data.tables.text_lines import LineFile, LineReader
from evenstream.errors import DataError
from evenstream.numerals import read_number
from evenstream.tabular.inference import Cells

_SEPARATORS = ",;\t|"
_LONGEST = 1 << 17
"""Maximum bytes of a row that spans several lines, and of a single cell."""


class CsvReader(LineReader):
    """Rows of CSV text with a header line; separated by comma, semicolon, tab or bar.

    Lines are taken one by one, so that a row can be learned before the next one exists. After each
    row, `bytes`, `line` and `digest` describe what has been read so far. If a quotation mark is not
    closed soon, only its own line is lost: the lines after it are read again, as rows.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        super().__init__(lines, source)
        while (header := self._pull()) is not None and not header.removeprefix(BOM_UTF8).strip():
            self._count([header])
        if header is None:
            raise DataError(f"{source} is empty; it needs a line with the names of the columns")
        self._separator = max(_SEPARATORS, key=lambda separator: header.count(separator.encode()))
        try:
            names = self._cells(header)
        except ValueError as error:
            raise DataError(f"{source}, line {self.line}: {error}") from None
        TableReader.__init__(self, source, names)
        if _looks_like_data(self.names):
            line = header.decode("utf-8-sig").strip()
            raise DataError(
                f"{source} has no header: its first line is {line[:60]!r}; put a line with the "
                "names of the columns above it"
            )

    def rows(self, columns: Columns) -> Iterator[Row]:
        """The rows from here on."""
        places, label_place = columns.places(self.source, self.names)
        id_place = None if self.ids is None else self.names.index(self.ids)
        read_row = columns.how.read_row
        empty = columns.how.empty_at_first(self.names)
        while (line := self._pull()) is not None:
            try:
                cells = self._row(line)
                if cells is None:
                    continue
                if empty:
                    found = {name: (cell,) for name, cell in zip(self.names, cells, strict=True)}
                    empty = self.still_empty(empty, found)
                values = read_row([cells[place] for place in places])
                label = None if label_place is None else self.label(cells[label_place].strip())
                label = self.identified(label, None if id_place is None else cells[id_place])
            except ValueError as error:
                yield from self.refused(f"line {self.line}", error)
            else:
                yield values, label

    def sample(self, rows: int) -> dict[str, Cells]:
        """The cells of the next rows, by column; lines that are not rows are skipped."""
        found: list[list[str]] = []
        while len(found) < rows and (line := self._pull()) is not None:
            try:
                cells = self._row(line)
            except ValueError:
                continue
            if cells is not None:
                found.append(cells)
        return {name: [cells[place] for cells in found] for place, name in enumerate(self.names)}

    @property
    def decimal_comma(self) -> bool:
        """Whether a comma in a number is a decimal comma, since it does not separate cells."""
        return self._separator != ","

    def _row(self, line: bytes) -> list[str] | None:
        """The cells of a row, None for a blank line; raises `ValueError` if it does not fit."""
        cells = self._cells(line)
        if not cells:
            return None
        if len(cells) != len(self.names):
            raise ValueError(f"{len(cells)} cells, but there are {len(self.names)} columns")
        return cells

    def _begin(self, lines: Iterable[bytes]) -> None:
        """Continue with these lines."""
        super()._begin(lines)
        self._ahead, self._ahead_bytes = deque[bytes](), 0
        self._closes: bool | None = None

    def _cells(self, line: bytes) -> list[str]:
        """The cells of the row that begins with a line; empty for a blank one."""
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
        """The cells of a row, None if the last is not closed; raises `csv.Error` if invalid."""
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

        The lines ahead all leave an open cell open, except the last one if `_closes` is not None.
        This holds wherever the cell was opened, so no line is searched twice.
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


class CsvFile(LineFile, CsvReader):
    """A CSV file that can be left and resumed later."""


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
