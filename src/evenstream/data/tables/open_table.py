"""Opens tables and determines their columns."""

from __future__ import annotations

import itertools
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from pathlib import Path

from evenstream.data.tables.csv_file import CsvFile, CsvReader
from evenstream.data.tables.json_lines import JsonLinesFile, JsonLinesReader
from evenstream.data.tables.parquet_file import ParquetFile
from evenstream.data.tables.reader import TableReader
from evenstream.data.tables.roles import Columns
from evenstream.tabular import SAMPLE_ROWS, Wishes

PARQUET_SUFFIXES = (".parquet", ".pq")
JSON_SUFFIXES = (".jsonl", ".ndjson")
TABLE_SUFFIXES = (".csv", ".tsv", *JSON_SUFFIXES, *PARQUET_SUFFIXES)


def open_table(path: Path) -> TableReader:
    """Open a table by its suffix."""
    suffix = path.suffix.lower()
    if suffix in PARQUET_SUFFIXES:
        return ParquetFile(path)
    return JsonLinesFile(path) if suffix in JSON_SUFFIXES else CsvFile(path)


def open_lines(lines: Iterable[bytes], source: str) -> TableReader:
    """Read lines as they arrive: JSON if the first with text begins with a brace, otherwise CSV."""
    lines = iter(lines)
    first = next(lines, b"")
    while first and not first.removeprefix(BOM_UTF8).strip():
        first = next(lines, b"")
    kind = JsonLinesReader if first.removeprefix(BOM_UTF8).lstrip()[:1] == b"{" else CsvReader
    return kind(itertools.chain([first] if first else [], lines), source)


def choose_columns(
    reader: TableReader,
    first_rows: TableReader,
    label: str | None = None,
    ignore: Sequence[str] = (),
    wishes: Wishes | None = None,
    *,
    label_needed: bool = True,
    texts: bool = False,
) -> Columns:
    """The columns of a table, each with its kind.

    Args:
        reader: a reader of the table; none of its rows is read.
        first_rows: another reader of the same rows.
        label: the label's column, unless its name makes it obvious.
        ignore: columns to leave out.
        wishes: what the user specifies about the kinds of columns.
        label_needed: whether there must be a label.
        texts: whether one column is to be passed on as text.
    """
    sample = first_rows.sample(SAMPLE_ROWS)
    reader.names = first_rows.names  # JSON keys missing from the first row are known now
    names, source = reader.names, reader.source
    columns = Columns.choose(source, names, label, ignore, label_needed=label_needed)
    if texts:
        return columns.with_texts(source, sample, (wishes or Wishes()).text)
    if not any(len(cells) for cells in sample.values()):
        return columns  # there are no rows to judge by, and none to read
    comma = isinstance(reader, CsvReader) and reader.decimal_comma
    return columns.told_by(source, sample, wishes or Wishes(), comma=comma)
