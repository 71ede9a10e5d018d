"""What all tables have in common: rows that arrive one by one."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenstream.data.dataset import Label
from evenstream.data.tables.roles import Columns
from evenstream.errors import DataError
from evenstream.tabular.columns import BadCell, WrongKind
from evenstream.tabular.encoder import warn_of_content
from evenstream.tabular.inference import Cells

Row = tuple[Sequence[Any] | NDArray[np.float32] | None, Any]
"""The parsed features of one row, and its label if the table has labels.

None in place of an unusable row, if such rows are requested.
"""

Batch = tuple[NDArray[np.float32], list[Any]]

_LONGEST_LABEL = 256
"""Maximum length of a label; NumPy gives every label the space of the longest one."""


class Identified(NamedTuple):
    """A label with the id of its row, if ids are requested."""

    label: Label | None
    id: str


class TableReader:
    """A table that is read row by row.

    Attributes:
        source: its name in messages.
        names: its columns.
        may_skip: whether the user may choose `skip_bad`, so that errors advise it.
        skip_bad: leave out unusable rows and count them; otherwise they raise `DataError`.
        keep_bad: yield None in place of such a row.
        skipped: rows left out so far.
        refusal: what was wrong with the first of them.
        label_needed: whether a row must have a label; if not, a missing one is None.
        as_label: converts a cell to a label; raises `ValueError` if it cannot.
        may_grow: whether more may be written to the file: a last CSV line without a newline is then
            left unread, because it may be half a row.
        unfinished: whether there was such a line.
        ids: the column that holds the id of each row, which then comes with its label
            (`Identified`); None if not requested.
    """

    may_grow = False
    may_skip = False
    unfinished = False
    ids: str | None = None

    def __init__(self, source: str, names: Sequence[str]) -> None:
        self.source, self.names = source, [name.strip() for name in names]
        self.skip_bad, self.keep_bad, self.skipped, self.label_needed = False, False, 0, True
        self.refusal = ""
        self.as_label: Callable[[Label], Label] = _as_it_is
        _check_names(source, self.names)

    def rows(self, columns: Columns) -> Iterator[Row]:
        """The rows from here on; labels are None if the table has none."""
        raise NotImplementedError

    def stack(self, batch: Sequence[Row], columns: Columns) -> Batch:
        """Rows as one array of inputs and a list of labels."""
        return stack(batch)

    def sample(self, rows: int) -> dict[str, Cells]:
        """The cells of the next rows, by column; to read those rows, open the table again."""
        raise NotImplementedError

    def check(self, columns: Columns) -> None:
        """Reject a table with missing or unknown columns."""
        columns.places(self.source, self.names)

    def place(self) -> dict[str, Any]:
        """What has been read so far, for `go_to`; empty for a pipe, which cannot go back."""
        return {}

    def go_to(self, place: Mapping[str, Any]) -> None:
        """Continue from a position; does nothing for a pipe."""

    def recognises(self, place: Mapping[str, Any]) -> bool:
        """Whether a position belongs to this table, whatever its name was then."""
        return "sha256" not in place

    def close(self) -> None:
        """Close the file, if there is one."""

    def still_empty(self, empty: list[str], cells: Mapping[str, Iterable[Any]]) -> list[str]:
        """Which of these columns, empty in the first rows, have no content here; warns of others.

        Costs nothing where there are none.
        """
        told = warn_of_content(self.source, empty, cells) if empty else []
        return [name for name in empty if name not in told]

    def refused(self, where: str, why: ValueError) -> Iterator[Row]:
        """Raise an error for an unusable row, or count it; yields what stands in its place."""
        if not self.skip_bad:
            raise DataError(f"{self.source}, {where}: {why}{self._advice(why)}")
        self.skipped += 1
        self.refusal = self.refusal or f"{where}: {why}"
        if self.keep_bad:
            yield None, None

    def _advice(self, why: ValueError) -> str:
        ways = ["correct it"]
        if self.may_skip:
            ways.append("leave such rows out with --corrupt skip")
        if isinstance(why, WrongKind) or (isinstance(why, BadCell) and why.wrong_kind):
            options = "--categorical, --text or --ignore NAME"
            options = options if self.may_skip else "categorical, text or ignore"
            ways.append(f"start over and read the column differently: {options}")
        return f"; {', or '.join(ways)}"

    def label(self, value: Label | None) -> Label | None:
        """The label of a row; raises `ValueError` if it is missing or unusable."""
        if value is None or value == "":
            if self.label_needed:
                raise ValueError("the label is missing")
            return None
        try:
            if isinstance(value, str) and len(value) > _LONGEST_LABEL:
                raise ValueError(
                    f"the label is {value[:30]!r}... with {len(value)} characters, more than "
                    f"{_LONGEST_LABEL}"
                )
            return self.as_label(value)
        except ValueError:
            if self.label_needed:
                raise
            return None  # such as ? for an unknown one

    def identified(self, label: Label | None, cell: Any) -> Any:
        """A label, with the id of its row if requested; raises `ValueError` if that is missing."""
        if self.ids is None:
            return label
        text = "" if cell is None else str(cell).strip()
        if not text:
            raise ValueError(f"the id is missing (column {self.ids})")
        return Identified(label, text)


def in_groups(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Rows, `size` at a time; the last group may be smaller."""
    iterator = iter(rows)
    while group := list(itertools.islice(iterator, size)):
        yield group


def in_batches(rows: Iterable[Row], size: int) -> Iterator[Batch]:
    """Stack rows of numbers into inputs and labels, `size` at a time."""
    return map(stack, in_groups(rows, size))


def stack(batch: Sequence[Row]) -> Batch:
    """Rows of numbers as one array of inputs and a list of labels."""
    values, labels = zip(*batch, strict=True)
    return np.array(values, np.float32), list(labels)


def open_binary(path: Path) -> BinaryIO:
    """Open a file, or raise an error that says why not."""
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


@contextlib.contextmanager
def closing_on_error(file: BinaryIO) -> Iterator[None]:
    """Close the file if the block fails, for a constructor that takes it over."""
    try:
        yield
    except BaseException:
        file.close()
        raise


def _as_it_is(label: Label) -> Label:
    return label


def _check_names(source: str, names: Sequence[str]) -> None:
    for place, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(
                f"{source}: column {place} has no name; a table saved with its row numbers has "
                "one such column, save it without them"
            )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{source} has more than one column called {twice[0]!r}; rename them")
