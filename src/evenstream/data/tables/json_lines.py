"""Tables as JSON lines, one object per row, from files and pipes."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import Any

from evenstream.data.tables.reader import Row, TableReader
from evenstream.data.tables.roles import Columns
from evenstream.data.tables.text_lines import LineFile, LineReader
from evenstream.errors import DataError, some_of
from evenstream.tabular.inference import Cells


class JsonLinesReader(LineReader):
    """Rows of JSON lines. A key that a row lacks is a missing cell.

    `names` are the keys of the first row, until `sample` has read more.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        super().__init__(lines, source)
        first = self._next()
        while first is not None and not first.removeprefix(BOM_UTF8).strip():
            self._count([first])
            first = self._next()
        if first is None:
            raise DataError(f"{source} is empty; it needs a JSON object on each line")
        self._first: bytes | None = first
        try:
            names = list(_record(first))
        except ValueError as error:
            raise DataError(f"{source}, line {self.line + 1}: {error}") from None
        TableReader.__init__(self, source, names)

    def rows(self, columns: Columns) -> Iterator[Row]:
        """The rows from here on."""
        features, read_row = dict.fromkeys(columns.features).keys(), columns.how.read_row
        empty = columns.how.empty_at_first(list(columns.how.left_out))
        known = {*features, *columns.ignored, columns.label}
        while (line := self._pull()) is not None:
            try:
                record = _record(line)
                if not record.keys() <= known:
                    unknown = sorted(record.keys() - known)
                    raise ValueError(f"unknown column{'s' * (len(unknown) > 1)} {some_of(unknown)}")
                if not record.keys() & features:
                    raise ValueError(f"none of the columns {some_of(columns.features)}")
                if empty:
                    empty = self.still_empty(empty, {n: [record.get(n)] for n in empty})
                values = read_row([record.get(name) for name in features])
                label = None if columns.label is None else self._label(record.get(columns.label))
                label = self.identified(label, record.get(self.ids or ""))
            except ValueError as error:
                yield from self.refused(f"line {self.line}", error)
            else:
                yield values, label

    def sample(self, rows: int) -> dict[str, Cells]:
        """The cells of the next rows, by column; afterwards `names` has all keys seen."""
        found: list[dict[str, Any]] = []
        while len(found) < rows and (line := self._pull()) is not None:
            try:
                found.append(_record(line))
            except ValueError:
                continue
        self.names = list(dict.fromkeys(name for record in found for name in record))
        return {name: [record.get(name) for record in found] for name in self.names}

    def check(self, columns: Columns) -> None:
        """Nothing is known about unread rows; each is checked individually."""

    def _label(self, value: Any) -> Any:
        if not isinstance(value, (str, int, type(None))):
            raise ValueError(f"the label is {value!r}; labels must be text, integers or booleans")
        return self.label(value.strip() if isinstance(value, str) else value)

    def _begin(self, lines: Iterable[bytes]) -> None:
        """Continue with these lines."""
        super()._begin(lines)
        self._first = None

    def _pull(self) -> bytes | None:
        """The next line that is not blank."""
        while True:
            line, self._first = self._first or self._next(), None
            if line is None:
                return None
            self._count([line])
            if line.strip():
                return line


class JsonLinesFile(LineFile, JsonLinesReader):
    """A file of JSON lines that can be left and resumed later."""


def _record(line: bytes) -> dict[str, Any]:
    """The object on a line; raises `ValueError` if there is none."""
    try:
        record = json.loads(line.removeprefix(BOM_UTF8).decode())
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(record, dict) or not record:
        raise ValueError('is not an object with names and values, as in {"a": 1, "label": 2}')
    return {name.strip(): value for name, value in record.items()}
