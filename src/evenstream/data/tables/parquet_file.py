"""Tables as Parquet files."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenstream.data.checked_files import digest_of
from evenstream.data.tables.columns import Columns
from evenstream.data.tables.reader import Row, TableReader, closing_on_error, open_binary
from evenstream.errors import DataError

_CHUNK = 4096


class ParquetFile(TableReader):
    """A Parquet file, read in chunks; `row` says how many rows have been read so far."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise DataError(
                "Parquet files are read with pyarrow: pip install 'evenstream[parquet]'"
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
        from pyarrow import ArrowException

        places, label_place = columns.places(self.source, self.names)
        self._check_types(places, label_place)
        read = 0
        try:
            for chunk in self._table.iter_batches(_CHUNK):
                first, read = read, read + len(chunk)
                if read > self.row:
                    yield from self._chunk_rows(chunk.slice(self.row - first), places, label_place)
        except (ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.source} is damaged: {error}") from None

    def place(self) -> dict[str, Any]:
        """The rows read so far, and the checksum of the whole file."""
        return {"row": self.row, "sha256": self._sha256}

    def go_to(self, place: Mapping[str, Any]) -> None:
        """Go on after so many rows."""
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

    def _chunk_rows(self, chunk: Any, places: list[int], label_place: int | None) -> Iterator[Row]:
        x = np.empty((len(chunk), len(places)), np.float32)
        for index, place in enumerate(places):
            values = chunk.column(place).cast("double", safe=False).to_numpy(zero_copy_only=False)
            with np.errstate(over="ignore"):  # too large becomes infinite, which is refused below
                x[:, index] = values
        labels = [None] * len(x) if label_place is None else chunk.column(label_place).to_pylist()
        for values, label, good in zip(x, labels, np.isfinite(x), strict=True):
            self.row += 1
            try:
                if not good.all():
                    name = self.names[places[int(np.argmin(good))]]
                    raise ValueError(f"column {name!r} is missing or not finite; fill or drop it")
                taken = None if label_place is None else self.label(label)
            except ValueError as error:
                self.refuse(f"row {self.row}", str(error))
            else:
                yield values, taken

    def _check_types(self, places: list[int], label_place: int | None) -> None:
        from pyarrow import types

        schema = self._table.schema_arrow
        numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
        for place in places:
            kind = schema.field(place).type
            if not any(is_kind(kind) for is_kind in numeric):
                raise DataError(
                    f"{self.source}: column {self.names[place]!r} holds {kind}, not numbers; "
                    "encode it as numbers, or leave it out with ignore (--ignore NAME)"
                )
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
