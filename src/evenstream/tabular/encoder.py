"""Turns the cells of a table into a matrix, by a specification saved with the learner."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import DataWarning, InputError, count, shown, some_of
from evenstream.numerals import check_plain
from evenstream.tabular.cells import LARGEST, says_something
from evenstream.tabular.columns import BadCell, Column, Inputs, Number, column_from_state
from evenstream.tabular.frames import Frame, read_frame
from evenstream.tabular.inference import EMPTY, ENOUGH_ROWS, SAMPLE_ROWS, Wishes, infer_columns

FORMAT = 1
AS_ASKED = "as asked for"
"""Reason for leaving out a column that the user does not want."""
_OTHERWISE = (
    "; convert the column, or start over with "
    "learner.table = TableEncoder.infer(frame, categorical=[...])"
)


@dataclass(frozen=True)
class TableEncoder:
    """Turns rows of a table into inputs of a fixed width, each row independently.

    Attributes:
        columns: in the order of the inputs, with distinct names.
        left_out: columns that produce no inputs and may be absent, each with the reason.
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
        """Detect the kinds of columns from the first rows of a frame (pandas, polars or Arrow).

        Args:
            frame: inputs without their labels.
            categorical: columns to treat as categories, whatever they look like.
            text: columns to treat as free text.
            date: columns to treat as dates or times, `NAME` or `NAME=FORMAT` as in `strptime`.
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
        """The inverse of `state`; raises an error for anything that `state` did not return."""
        if not isinstance(state, Mapping) or "format" not in state:
            raise InputError(
                "an encoder is read from what its `state` returned, or json.loads(...) of the "
                f"property `table` of an exported file, got {shown(state)}"
            )
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
        """The columns that produce inputs."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def width(self) -> int:
        """Number of inputs per row."""
        return sum(column.width for column in self.columns)

    @property
    def inputs_in_words(self) -> list[str]:
        """What each input is."""
        return [what for column in self.columns for what in column.inputs_in_words]

    @cached_property
    def when(self) -> Inputs | None:
        """Inputs that say when a row came, as at the origin; NaN for all others. None: no dates."""
        values = np.concatenate([column.when for column in self.columns])
        return None if np.isnan(values).all() else values

    @cached_property
    def plain(self) -> bool:
        """Whether the inputs are simply the numbers in the columns."""
        return all(isinstance(column, Number) and column.plain for column in self.columns)

    @cached_property
    def strict(self) -> bool:
        """Whether every column must hold a number in every row."""
        return self.plain and all(isinstance(c, Number) and c.fill is None for c in self.columns)

    @property
    def obvious(self) -> bool:
        """Whether there is nothing to report: all columns are used, as plain numbers."""
        return self.plain and not self.left_out

    # ---- rows ----------------------------------------------------------------------------------

    def read_row(self, cells: Sequence[Any]) -> list[Any]:
        """Read a row's cells in the order of the columns; raises `ValueError` for a bad one."""
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
        """The inputs for rows that were read."""
        if self.plain:
            values = np.array(rows, np.float64)
            if not np.isnan(values).any():
                return values.astype(np.float32)
        return self.encode(list(zip(*rows, strict=True)))

    def encode(self, values: Sequence[Sequence[Any] | NDArray[Any]]) -> Inputs:
        """The inputs for cells that were read, given column by column."""
        return np.concatenate(
            [column.encode(found) for column, found in zip(self.columns, values, strict=True)], 1
        )

    # ---- frames --------------------------------------------------------------------------------

    def encode_frame(self, frame: Any) -> NDArray[Any]:
        """The inputs for a frame, whose columns are found by name."""
        table = frame if isinstance(frame, Frame) else read_frame(frame)
        self.check_names("the table", table.names)
        cells = [table.columns[name] for name in self.names]
        if self.plain and all(getattr(found, "dtype", None) == np.uint8 for found in cells):
            return np.stack(cells, 1)  # scaled to 0..1 by the learner, like any uint8 array
        try:
            return self.encode(
                [c.read_all(found) for c, found in zip(self.columns, cells, strict=True)]
            )
        except BadCell as error:
            advice = _OTHERWISE if error.wrong_kind else ""
            raise InputError(f"row {error.row} of the table (from 0): {error}{advice}") from None

    def check_names(self, source: str, names: Sequence[str]) -> None:
        """Reject a table with missing or unknown columns."""
        known = (*self.names, *self.left_out)
        for trouble, found in (
            ("lacks the column", [name for name in self.names if name not in names]),
            ("has the unknown column", [name for name in names if name not in known]),
        ):
            if found:
                some = "s" * (len(found) > 1)
                raise InputError(
                    f"{source} {trouble}{some} {some_of(found)}; the learner knows "
                    f"{some_of(self.names)}"
                )

    # ---- what to tell the user -----------------------------------------------------------------

    def doubt(self, rows: int) -> str | None:
        """What to say if the kinds were detected from this many rows; None if that is enough."""
        kinds = [f"{c.name} {c.kind}" for c in self.columns if not isinstance(c, Number)]
        kinds += [f"{name} left out" for name, why in self.left_out.items() if why != AS_ASKED]
        if not kinds or rows >= ENOUGH_ROWS:
            return None
        return (
            f"the kinds of columns are detected from {count(rows, 'row')} only ({some_of(kinds)}) "
            f"and stay as they are; begin with {ENOUGH_ROWS} rows or more, or say them yourself"
        )

    def empty_at_first(self, names: Sequence[str]) -> list[str]:
        """Which of these columns are left out because they were empty."""
        return [name for name in names if self.left_out.get(name) == EMPTY]

    def summary(self) -> str:
        """A line per column with its kind and inputs, or a single line if all are numbers."""
        if self.obvious:
            return f"columns: {len(self.columns)} numbers"
        lines = [(column.name, column.kind, column.note) for column in self.columns]
        lines += [(name, "left out", why) for name, why in self.left_out.items()]
        widest = min(max(len(name) for name, _, _ in lines), 30)
        told = [f"  {name:<{widest}}  {kind:<8}  {note}".rstrip() for name, kind, note in lines]
        return "\n".join([f"columns, by the first rows ({self.width} inputs):", *told])


def warn_of_content(
    source: str, empty: Sequence[str], cells: Mapping[str, Iterable[Any]]
) -> list[str]:
    """Warn of columns that were empty at first and no longer are; returns their names."""
    told = []
    for name in empty:
        said = next(filter(says_something, cells[name]), None)
        if said is not None:
            told.append(name)
            warnings.warn(
                f"{source}: column {name!r} was empty in the first rows, so it is left out, though "
                f"it now has {str(said)[:60]!r}; to use it, start over and say its kind "
                "(categorical, text or date), or with rows that have it",
                DataWarning,
                stacklevel=5,
            )
    return told


@dataclass(frozen=True, eq=False)
class TableRows:
    """Encoded rows of a table with their encoder, which the learner keeps."""

    values: Inputs
    encoder: TableEncoder

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)
