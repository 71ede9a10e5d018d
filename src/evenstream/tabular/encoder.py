"""From the cells of a table to a matrix, by a specification that is saved with the learner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import InputError, shown, some_of
from evenstream.numerals import check_plain
from evenstream.tabular.cells import LARGEST
from evenstream.tabular.columns import BadCell, Column, Inputs, Number, column_from_state
from evenstream.tabular.frames import Frame, read_frame
from evenstream.tabular.inference import SAMPLE_ROWS, Wishes, infer_columns

FORMAT = 1
AS_ASKED = "as asked for"
"""Why a column is left out that the user does not want."""


@dataclass(frozen=True)
class TableEncoder:
    """Turns rows of a table into inputs of a fixed width, each row by itself.

    Attributes:
        columns: in the order of the inputs; names are unlike each other.
        left_out: columns that give no inputs, and need not be there, each with the reason.
    """

    columns: tuple[Column, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def infer(
        cls,
        frame: Any,
        *,
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        date: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> TableEncoder:
        """Tell the kinds of columns by the first rows of a frame (pandas, polars or Arrow).

        Args:
            frame: inputs without their labels.
            categorical: columns to take as categories, whatever they look like.
            text: columns to take as free text.
            date: columns to take as dates or times, `NAME` or `NAME=FORMAT` as in `strptime`.
            ignore: columns to leave out.
        """
        table = read_frame(frame)
        absent = [name for name in ignore if name not in table.names]
        if absent:
            raise InputError(f"the table has no column {absent[0]!r} to ignore")
        wishes = Wishes(tuple(categorical), tuple(text), tuple(date))
        called = [name for name in table.categorical if name not in (*wishes.names, *ignore)]
        wishes = replace(wishes, categorical=(*wishes.categorical, *called))
        first = {n: c[:SAMPLE_ROWS] for n, c in table.columns.items() if n not in ignore}
        columns, left_out = infer_columns("the table", first, wishes)
        return cls(columns, {**left_out, **dict.fromkeys(ignore, AS_ASKED)})

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> TableEncoder:
        """Columns that all hold a number in every row."""
        return cls(tuple(Number(name) for name in names))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TableEncoder:
        """The inverse of `state`; fails if it is not what `state` gives."""
        if state["format"] != FORMAT:
            raise ValueError(f"it has the format {shown(state['format'])}, not {FORMAT}")
        columns = tuple(column_from_state(dict(column)) for column in state["columns"])
        encoder = cls(columns, {str(name): str(why) for name, why in state["left_out"].items()})
        if not columns or len({*encoder.names, *encoder.left_out}) < len(columns) + len(
            encoder.left_out
        ):
            raise ValueError("it has no columns, or two have the same name")
        return encoder

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        columns = [column.state() for column in self.columns]
        return {"format": FORMAT, "columns": columns, "left_out": dict(self.left_out)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that give inputs."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def width(self) -> int:
        """Inputs that a row gives."""
        return sum(column.width for column in self.columns)

    @cached_property
    def plain(self) -> bool:
        """Whether the inputs are the numbers in the columns, one for each."""
        return all(isinstance(column, Number) and column.plain for column in self.columns)

    @cached_property
    def strict(self) -> bool:
        """Whether every column must hold a number in every row."""
        return self.plain and all(isinstance(c, Number) and c.fill is None for c in self.columns)

    @property
    def obvious(self) -> bool:
        """Whether there is nothing to say about it: all columns are there, as plain numbers."""
        return self.plain and not self.left_out

    # ---- rows ----------------------------------------------------------------------------------

    def read_row(self, cells: Sequence[Any]) -> list[Any]:
        """What the cells of a row say, in the order of the columns; `ValueError` if one is bad."""
        if self.plain:
            try:
                check_plain("".join(cells))
                values = list(map(float, cells))
                small = min(values) >= -LARGEST and max(values) <= LARGEST
                if small and math.isfinite(sum(values)):
                    return values
            except (ValueError, TypeError):
                pass
        return [column.read(cell) for column, cell in zip(self.columns, cells, strict=True)]

    def encode_rows(self, rows: Sequence[Sequence[Any]]) -> Inputs:
        """The inputs of rows that were read."""
        if self.plain:
            values = np.array(rows, np.float64)
            if not np.isnan(values).any():
                return values.astype(np.float32)
        return self.encode(list(zip(*rows, strict=True)))

    def encode(self, values: Sequence[Sequence[Any] | NDArray[Any]]) -> Inputs:
        """The inputs of what was read, given column by column."""
        return np.concatenate(
            [column.encode(found) for column, found in zip(self.columns, values, strict=True)], 1
        )

    # ---- frames --------------------------------------------------------------------------------

    def encode_frame(self, frame: Any) -> NDArray[Any]:
        """The inputs of a frame whose columns are found by name."""
        table = frame if isinstance(frame, Frame) else read_frame(frame)
        self.check_names("the table", table.names)
        cells = [table.columns[name] for name in self.names]
        if self.plain and all(getattr(found, "dtype", None) == np.uint8 for found in cells):
            return np.stack(cells, 1)  # scaled to 0..1 by the learner, like any array of bytes
        try:
            return self.encode(
                [c.read_all(found) for c, found in zip(self.columns, cells, strict=True)]
            )
        except BadCell as error:
            raise InputError(f"row {error.row} of the table (from 0): {error}") from None

    def check_names(self, source: str, names: Sequence[str]) -> None:
        """Refuse a table that lacks columns or has others."""
        known = (*self.names, *self.left_out)
        for trouble, found in (
            ("lacks the columns", [name for name in self.names if name not in names]),
            ("has unknown columns", [name for name in names if name not in known]),
        ):
            if found:
                raise InputError(
                    f"{source} {trouble} {some_of(found)}; the learner knows {some_of(self.names)}"
                )

    # ---- what to tell the user -----------------------------------------------------------------

    def summary(self) -> str:
        """A line for each column: its kind, and what it becomes; one for all if all are numbers."""
        if self.obvious:
            return f"columns: {len(self.columns)} numbers"
        lines = [(column.name, column.kind, column.note) for column in self.columns]
        lines += [(name, "left out", why) for name, why in self.left_out.items()]
        widest = min(max(len(name) for name, _, _ in lines), 30)
        told = [f"  {name:<{widest}}  {kind:<8}  {note}".rstrip() for name, kind, note in lines]
        return "\n".join([f"columns, by the first rows ({self.width} inputs):", *told])


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table that were encoded, and how: what a learner takes, and keeps the how of."""

    values: Inputs
    encoder: TableEncoder

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)
