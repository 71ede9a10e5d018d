"""Tables with a label column, from CSV, JSON lines and Parquet: whole, or row by row.

Labels in a CSV file are always text: whether a column holds numbers could only be known at its end,
and a stream has none. In a Parquet file the column type decides, in JSON the value.
"""

from evenstream.data.tables.csv_file import CsvReader
from evenstream.data.tables.open_table import TABLE_SUFFIXES, choose_columns, open_lines, open_table
from evenstream.data.tables.reader import Row, TableReader, in_batches, in_groups
from evenstream.data.tables.roles import Columns
from evenstream.data.tables.whole import read_table

__all__ = [
    "TABLE_SUFFIXES",
    "Columns",
    "CsvReader",
    "Row",
    "TableReader",
    "choose_columns",
    "in_batches",
    "in_groups",
    "open_lines",
    "open_table",
    "read_table",
]
