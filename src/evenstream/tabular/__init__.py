"""Tables with columns of any kind, detected from the first rows and encoded row by row."""

from evenstream.tabular.encoder import TableEncoder, TableRows
from evenstream.tabular.frames import is_frame
from evenstream.tabular.inference import SAMPLE_ROWS, Wishes, infer_columns

__all__ = ["SAMPLE_ROWS", "TableEncoder", "TableRows", "Wishes", "infer_columns", "is_frame"]
