"""Tables as Parquet files."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenstream.data.checked_files import digest_of
from evenstream.data.tables.reader import Row, TableReader, closing_on_error, open_binary
from evenstream.data.tables.roles import Columns
from evenstream.errors import DataError
from evenstream.tabular import TableEncoder
from evenstream.tabular.columns import BadCell, Inputs
from evenstream.tabular.frames import read_frame
from evenstream.tabular.inference import Cells

_CHUNK = 4096


class ParquetFile(TableReader):
    """A Parquet file, read in chunks; `row` is the number of rows read so far."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise DataError(
                "Reading Parquet files needs pyarrow, which is not installed: "
                "run pip install 'evenstream[parquet]'"
            ) from None
        self.row, self._file = 0, open_binary(path)
        with closing_on_error(self._file):
            try:
                self._table = parquet.ParquetFile(self._file)
                names = self._table.schema_arrow.names
            except (ArrowException, OSError, ValueError) as error:
                raise DataError(f"{path} is not a readable Parquet file: {error}") from None
            super().__init__(str(path), names)

    def rows(self, columns: Columns) -> Iterator[Row]:
        """The rows from here on."""
        _, label_place = columns.places(self.source, self.names)
        self._check_types(label_place)
        read, empty = 0, columns.how.empty_at_first(self.names)
        with self._telling_damage():
            for chunk in self._table.iter_batches(_CHUNK):
                first, read = read, read + len(chunk)
                if read > self.row:
                    rest = chunk.slice(self.row - first)
                    if empty:
                        found = read_frame(rest.select(empty)).columns
                        empty = self.still_empty(empty, found)
                    yield from self._chunk_rows(rest, columns, label_place)

    def place(self) -> dict[str, Any]:
        """The rows read so far, and the checksum of the whole file."""
        return {"row": self.row, "sha256": self._sha256}

    def go_to(self, place: Mapping[str, Any]) -> None:
        """Continue after this many rows."""
        self.row = place["row"]

    def recognises(self, place: Mapping[str, Any]) -> bool:
        """Whether it is the same file."""
        return "row" in place and place["sha256"] == self._sha256

    @functools.cached_property
    def _sha256(self) -> str:
        return digest_of(Path(self.source), "sha256")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def sample(self, rows: int) -> dict[str, Cells]:
        """The cells of the first rows, by column."""
        with self._telling_damage():
            for chunk in self._table.iter_batches(rows):
                return read_frame(chunk).columns
        return {name: [] for name in self.names}

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        from pyarrow import ArrowException

        try:
            yield
        except (ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.source} is damaged: {error}") from None

    def _chunk_rows(self, chunk: Any, columns: Columns, label_place: int | None) -> Iterator[Row]:
        labels = [None] * len(chunk)
        if label_place is not None:
            labels = chunk.column(label_place).to_pylist()
        ids = [None] * len(chunk)
        if self.ids is not None:
            ids = chunk.column(self.names.index(self.ids)).to_pylist()
        for values, label, own in zip(_encoded(chunk, columns), labels, ids, strict=True):
            self.row += 1
            try:
                if isinstance(values, ValueError):
                    raise values
                taken = None if label_place is None else self.label(label)
                taken = self.identified(taken, own)
            except ValueError as error:
                yield from self.refused(f"row {self.row}", error)
            else:
                yield values, taken

    def _check_types(self, label_place: int | None) -> None:
        from pyarrow import types

        schema = self._table.schema_arrow
        if label_place is None:
            return
        kind = schema.field(label_place).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        textual = (types.is_string, types.is_large_string, types.is_string_view)
        if not any(is_kind(kind) for is_kind in (types.is_boolean, types.is_integer, *textual)):
            raise DataError(
                f"{self.source}: the label column {self.names[label_place]!r} holds {kind}; labels "
                "must be text, integers or booleans"
            )


def _encoded(chunk: Any, columns: Columns) -> Iterator[Any]:
    """The inputs for each row, or what is wrong with it."""
    frame = read_frame(chunk)
    cells = [frame.columns[name] for name in columns.how.names]
    if columns.texts:
        yield from ([columns.how.columns[0].read(cell)] for cell in cells[0])
        return
    try:
        yield from _encode(columns.how, cells)
    except BadCell:
        for row in range(len(chunk)):
            try:
                (values,) = _encode(columns.how, [found[row : row + 1] for found in cells])
                yield values
            except BadCell as error:
                yield error


def _encode(encoder: TableEncoder, cells: Sequence[Any]) -> Inputs:
    return encoder.encode(
        [column.read_all(found) for column, found in zip(encoder.columns, cells, strict=True)]
    )
