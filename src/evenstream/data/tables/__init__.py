"""Tables with a label column, from CSV and Parquet files: whole, or row by row as they arrive.

Labels of a CSV file are text, always: whether a column holds numbers could only be known at its
end, and a stream has none. In a Parquet file the type of the column decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evenstream.data.arrays import from_arrays
from evenstream.data.dataset import Dataset
from evenstream.data.tables.columns import Columns
from evenstream.data.tables.csv_file import CsvFile, CsvReader
from evenstream.data.tables.parquet_file import ParquetFile
from evenstream.data.tables.reader import Row, TableReader, in_batches, stack
from evenstream.errors import DataError

__all__ = [
    "TABLE_SUFFIXES",
    "Columns",
    "CsvReader",
    "Row",
    "TableReader",
    "in_batches",
    "open_table",
    "read_table",
    "stack",
]

PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (".csv", ".tsv", *PARQUET_SUFFIXES)
_CHUNK = 4096


def open_table(path: Path) -> TableReader:
    """Open a table by the ending of its name."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return ParquetFile(path)
    return CsvFile(path)


def read_table(
    path: str | Path,
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    test_fraction: float | None = None,
    seed: int = 0,
) -> Dataset:
    """Read a whole CSV or Parquet file into a data set, with a stratified test part set aside.

    Args:
        path: A file whose name ends in .csv, .tsv, .parquet or .pq.
        label: The label's column; by default the one called label, class, target or y.
        ignore: Columns to leave out; all others must hold numbers or booleans.
        test_fraction: The share to set aside for testing, 0.2 if not given.
        seed: Which samples are set aside.
    """
    path = Path(path)
    with contextlib.closing(open_table(path)) as reader:
        columns = Columns.choose(reader.source, reader.names, label, ignore)
        batches = list(in_batches(reader.rows(columns), _CHUNK))
    if not batches:
        raise DataError(f"{path} has no rows below its header")
    x = np.concatenate([values for values, _ in batches])
    y = [label for _, labels in batches for label in labels]
    return from_arrays(x, y, name=path.stem, test_fraction=test_fraction, seed=seed)
