"""Reads pandas, polars and Arrow frames by column, without requiring any of them."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenstream.errors import InputError


@dataclass(frozen=True)
class Frame:
    """The columns of a frame by name: arrays of numbers or dates, or lists of anything else."""

    columns: dict[str, Any]
    categorical: tuple[str, ...] = ()
    """Columns that the frame itself marks as categorical."""

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.columns)


def is_frame(thing: Any) -> bool:
    """Whether this is a table with named columns; finds out without importing anything."""
    if isinstance(thing, Frame):
        return True
    home = type(thing).__module__.partition(".")[0]
    if home == "pyarrow":
        return type(thing).__name__ in ("Table", "RecordBatch")
    if home in ("numpy", "torch", "builtins"):
        return False
    named = hasattr(thing, "columns") or hasattr(thing, "column_names")
    return named and (
        hasattr(thing, "__arrow_c_stream__")
        or hasattr(thing, "__dataframe__")
        or (home == "pandas" and hasattr(thing, "iloc"))
    )


def read_frame(thing: Any) -> Frame:
    """The columns of a frame; raises `InputError` for anything else, or for duplicate names."""
    import narwhals.stable.v1 as nw

    if isinstance(thing, Frame):
        return thing
    if not is_frame(thing):
        raise InputError(
            f"expected a table with named columns (pandas, polars, Arrow), got a "
            f"{type(thing).__name__}"
        )
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(thing, arrow.RecordBatch):
        thing = arrow.Table.from_batches([thing])
    given = thing.columns if hasattr(thing, "iloc") else ()
    names = [str(name) for name in given]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"the table has more than one column called {twice[0]!r}; rename them")
    if names and any(not isinstance(name, str) for name in given):  # narwhals needs text
        thing = thing.set_axis(names, axis=1)
    try:
        frame = nw.from_native(thing, eager_only=True)
    except TypeError:
        import pyarrow

        frame = nw.from_native(pyarrow.table(thing), eager_only=True)
    if not len(frame):
        raise InputError("the table has no rows")
    kinds = frame.schema.items()
    categorical = [name.strip() for name, kind in kinds if kind in (nw.Categorical, nw.Enum)]
    found = {name.strip(): _values(nw, frame.get_column(name)) for name in frame.columns}
    return Frame(found, tuple(categorical))


def _values(nw: Any, column: Any) -> Any:
    kind = column.dtype
    if kind == nw.UInt8 and not column.null_count():
        return np.asarray(column.to_numpy())
    if kind.is_numeric() or kind == nw.Boolean:
        return np.asarray(column.cast(nw.Float64).to_numpy(), np.float64)
    if kind == nw.Datetime:
        if getattr(kind, "time_zone", None) is not None:
            column = column.dt.replace_time_zone(None)
        return np.asarray(column.to_numpy()).astype("datetime64[us]")
    if kind == nw.Date:
        return np.asarray(column.cast(nw.Datetime).to_numpy()).astype("datetime64[us]")
    if kind == nw.Duration:
        spans = np.asarray(column.to_numpy()).astype("timedelta64[us]")
        return np.where(np.isnat(spans), np.nan, spans.astype(np.int64) / 1e6)
    return column.to_list()
