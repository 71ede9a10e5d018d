"""Whole tables as data sets."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenstream.data.arrays import from_arrays
from evenstream.data.dataset import Dataset
from evenstream.data.tables.open_table import choose_columns, open_table
from evenstream.data.tables.reader import Batch, in_groups
from evenstream.data.tables.roles import Columns
from evenstream.errors import DataError
from evenstream.tabular import Wishes

_CHUNK = 4096


def read_table(
    path: str | Path,
    *,
    label: str | None = None,
    superclass: str | None = None,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    text: Sequence[str] = (),
    date: Sequence[str] = (),
    test_fraction: float | None = None,
    seed: int = 0,
) -> Dataset:
    """Read a whole table into a data set, with a stratified test part set aside.

    Args:
        path: A file whose name ends in .csv, .tsv, .jsonl, .ndjson, .parquet or .pq.
        label: The label's column; by default the one called label, class, target or y.
        superclass: The column that names the superclass of each row's class; not an input.
        ignore: Columns to leave out.
        categorical: Columns to treat as categories, whatever they look like.
        text: Columns to treat as free text.
        date: Columns to treat as dates or times: NAME, or NAME=FORMAT as in `strptime`.
        test_fraction: The share to set aside for testing, 0.2 if not given.
        seed: Which samples are set aside.
    """
    path = Path(path)
    wishes = Wishes(tuple(categorical), tuple(text), tuple(date))
    left_out = (*ignore, *([] if superclass is None else [superclass]))
    with (
        contextlib.closing(open_table(path)) as reader,
        contextlib.closing(open_table(path)) as first_rows,
    ):
        columns = choose_columns(reader, first_rows, label, left_out, wishes)
    x, y = _read(path, columns)
    above = None
    if superclass is not None:
        _, above = _read(path, _labelled_by(columns, superclass))
    return from_arrays(
        x,
        y,
        superclasses=None if above is None else [str(name) for name in above],
        name=path.stem,
        test_fraction=test_fraction,
        seed=seed,
        table=columns.encoder,
    )


def _read(path: Path, columns: Columns) -> Batch:
    with contextlib.closing(open_table(path)) as reader:
        batches = [reader.stack(rows, columns) for rows in in_groups(reader.rows(columns), _CHUNK)]
    if not batches:
        raise DataError(f"{path} has no rows below its header")
    x = np.concatenate([values for values, _ in batches])
    return x, [label for _, labels in batches for label in labels]


def _labelled_by(columns: Columns, superclass: str) -> Columns:
    """The same columns with a different label."""
    others = [name for name in (*columns.ignored, columns.label) if name not in (None, superclass)]
    return replace(columns, label=superclass, ignored=tuple(filter(None, others)))
