"""Data read by the commands, as streams whose position can be saved.

Register your own kind of data with the scheme of its addresses: `--from SCHEME://...`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenstream.core.inputs import check_inputs
from evenstream.core.labels import plain_labels
from evenstream.data.dataset import Inputs, Label
from evenstream.data.image_files import ImageFiles
from evenstream.data.reading import read_in_order
from evenstream.data.tables import Columns, Row, TableReader, in_groups
from evenstream.errors import InputError, calling, shown
from evenstream.live.pipe import timed_batches
from evenstream.live.tally import Place
from evenstream.registry import Registry, check_function
from evenstream.streams.stream import stream_generator
from evenstream.tabular import TableRows

Batch = tuple[Any, list[Any]] | tuple[Any, list[Any], list[Any]]
Given = tuple[Any, Any] | tuple[Any, Any, Any] | None
"""A batch, with or without ids, or nothing yet."""
Open = Callable[[str], Iterable[tuple[Any, Any] | None]]
OpenT = TypeVar("OpenT", bound=Open)


@dataclass(frozen=True)
class SourceInfo:
    """How addresses of a scheme are read."""

    open: Open
    images: bool = False
    """Whether the inputs are images, for which a new learner is set up."""


SOURCES: Registry[SourceInfo] = Registry("scheme of --from", form="[a-z][a-z0-9+.-]*")
"""The openers of addresses, by scheme."""


def register_source(scheme: str, *, images: bool = False) -> Callable[[OpenT], OpenT]:
    """Register a source of data by the scheme of its addresses: `learn --from SCHEME://...`.

    Decorate a function that takes the whole address and returns what `follow` takes: an iterable of
    pairs of inputs and labels, each learned in one step. When learning resumes, it is read from the
    beginning and batches already learned are skipped, unless it is `Resumable`. For `predict`,
    labels may be None.

    Args:
        scheme: made of a-z, 0-9 and + . -
        images: whether the inputs are images, for which a new learner is set up.
    """
    if not isinstance(images, bool):
        raise InputError(f"images must be True or False, got {shown(images)}")

    def add(opener: OpenT) -> OpenT:
        check_function("source", opener)
        SOURCES.add(scheme, SourceInfo(opener, images), opener)
        return opener

    return add


class Source:
    """Batches of inputs and labels, with a position that can be saved (`Resumable`).

    Labels are None if the data has none.

    Attributes:
        name: its name.
        is_image: whether the inputs are images.
        batch: rows per batch.
        kept: which rows of the last batch are usable; None means all of them. There are unusable
            ones only if the source was asked to report them.
    """

    name: str
    is_image = False
    batch = 32
    kept: NDArray[np.bool_] | None = None

    @property
    def skipped(self) -> int:
        """Number of unusable rows so far."""
        return 0

    @property
    def refusal(self) -> str:
        """What was wrong with the first of them."""
        return ""

    def __iter__(self) -> Iterator[Batch | None]:
        """The batches; None while nothing arrives."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Its position after the last batch."""
        raise NotImplementedError

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from such a position."""
        raise NotImplementedError

    def recognises(self, state: Mapping[str, Any]) -> bool:
        """Whether a position belongs to the same data, whatever its name was then."""
        raise NotImplementedError

    def trouble(self) -> AbstractContextManager[None]:
        """A block that learns from it; errors in a user's function are reported with its role."""
        return nullcontext()

    def close(self) -> None:
        """Close files."""

    def shuffle(self, seed: int) -> None:
        """Draw the order, if the data has none."""

    @property
    def stream(self) -> Iterable[Given]:
        """The stream for `follow`."""
        return self

    def is_at(self, name: str, place: Place) -> bool:
        """Whether a position, by the name of its stream, belongs to this data."""
        return self.recognises(place.notes)

    def name_in(self, streams: Mapping[str, Place], *, again: bool = False) -> str:
        """The name under which this data was learned before; otherwise, or with `again`, a new one.

        An interrupted pass is resumed, with or without `again`.
        """
        for name in reversed(list(streams)):
            if self.is_at(name, streams[name]):
                if again and streams[name].ended:
                    break
                return name
        names = (f"{self.name} ({number})" for number in itertools.count(2))
        return next(name for name in itertools.chain([self.name], names) if name not in streams)


class TableSource(Source):
    """The rows of a table, in order."""

    def __init__(
        self, name: str, reader: TableReader, columns: Columns, patience: float | None = None
    ) -> None:
        self.name, self.reader, self.columns = name, reader, columns
        self._patience = patience

    def __iter__(self) -> Iterator[Batch | None]:
        rows = self.reader.rows(self.columns)
        if self._patience is None:
            return map(self._stacked, in_groups(rows, self.batch))
        batches = timed_batches(rows, self.batch, self._patience)
        return (self._stacked(batch) if batch else None for batch in batches)

    def _stacked(self, rows: list[Row]) -> Batch:
        good = [row for row in rows if row[0] is not None]
        self.kept = None
        if len(good) < len(rows):
            self.kept = np.array([values is not None for values, _ in rows])
            if not good:
                return [], []
        inputs, labels = self._inputs(good)
        if self.reader.ids is None:
            return inputs, labels
        return inputs, [each.label for each in labels], [each.id for each in labels]

    def _inputs(self, rows: list[Row]) -> tuple[Any, list[Any]]:
        if self.columns.texts:
            return [values[0] for values, _ in rows if values is not None], [y for _, y in rows]
        x, labels = self.reader.stack(rows, self.columns)
        encoder = self.columns.encoder
        return (x if encoder is None else TableRows(x, encoder)), labels

    @property
    def skipped(self) -> int:
        """Number of unusable rows so far."""
        return self.reader.skipped

    @property
    def refusal(self) -> str:
        """What was wrong with the first of them."""
        return self.reader.refusal

    def state(self) -> dict[str, Any]:
        """The position in the file, and the columns, for resuming."""
        known = {"columns": self.columns.state(), "skipped": self.reader.skipped}
        return {**self.reader.place(), **known, "unfinished": self.reader.unfinished}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from such a position."""
        self.reader.go_to(state)
        self.reader.skipped = state["skipped"]

    def recognises(self, state: Mapping[str, Any]) -> bool:
        """Whether the file still begins the same way."""
        return "columns" in state and self.reader.recognises(state)

    def close(self) -> None:
        """Close the file."""
        self.reader.close()


class ArraySource(Source):
    """Rows of an array, or image files, in their own or a random order."""

    def __init__(self, name: str, x: Inputs, labels: Sequence[Label | None], sha256: str) -> None:
        self.name, self.x, self._labels, self._sha256 = name, x, labels, sha256
        self.is_image = x.ndim == 4
        self.grey = self.keep_bad = False
        self._order = np.arange(len(x))
        self._row = self._skipped = 0
        self._refusal = ""

    def shuffle(self, seed: int) -> None:
        """Shuffle the files of a folder, which are sorted by class, by the seed."""
        if isinstance(self.x, ImageFiles):
            self._order = stream_generator(seed, "folder").permutation(len(self.x))

    def __iter__(self) -> Iterator[Batch]:
        starts = range(self._row, len(self._order), self.batch)
        wanted = (self._order[start : start + self.batch] for start in starts)
        for start, read in zip(starts, read_in_order(self.x, wanted), strict=True):
            self._row = min(start + self.batch, len(self._order))
            self._skipped += len(read.skipped)
            self._refusal = self._refusal or (read.skipped or ("",))[0]
            whole = len(read.rows) == self._row - start
            self.kept = None if whole else np.isin(self._order[start : self._row], read.rows)
            if len(read.rows) or self.keep_bad:
                x = _grey(read.x) if self.grey else read.x
                yield x, [self._labels[row] for row in read.rows]

    @property
    def skipped(self) -> int:
        """Number of unreadable images so far."""
        return self._skipped

    @property
    def refusal(self) -> str:
        """What was wrong with the first of them."""
        return self._refusal

    def state(self) -> dict[str, Any]:
        """Number of rows so far."""
        return {"row": self._row, "sha256": self._sha256, "skipped": self._skipped}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue after this many rows."""
        self._row, self._skipped = state["row"], state["skipped"]

    def recognises(self, state: Mapping[str, Any]) -> bool:
        """Whether it is the same file or folder."""
        return state.get("sha256") == self._sha256


class AddressSource(Source):
    """What a user's function returns for an address, named after that address.

    `follow` restores its position, so there is none to save here.
    """

    def __init__(self, address: str, info: SourceInfo) -> None:
        self.name, self.is_image = address, info.images
        self._stream = info.open(address)

    @property
    def stream(self) -> Iterable[Given]:
        """The stream itself."""
        return self._stream

    def trouble(self) -> AbstractContextManager[None]:
        """Errors come from the function that yields the batches."""
        return calling(f"the source of {self.name}")

    def __iter__(self) -> Iterator[Batch | None]:
        with self.trouble():
            for batch in self._stream:
                yield None if batch is None else self._rows(*as_batch(self.name, batch)[:2])

    def _rows(self, x: Any, labels: Any) -> Batch:
        inputs = check_inputs(x, None)
        values = [None] * len(inputs) if labels is None else plain_labels(labels)
        if len(values) != len(inputs):
            raise InputError(f"{self.name}: {len(inputs)} rows but {len(values)} labels")
        return x, values

    def is_at(self, name: str, place: Place) -> bool:
        """Whether it is the same address, learned before or again."""
        return re.fullmatch(rf"{re.escape(self.name)}( \(\d+\))?", name) is not None

    def close(self) -> None:
        """Close the stream, if it can be closed."""
        if hasattr(self._stream, "close"):
            self._stream.close()


def as_batch(name: str, batch: Any) -> tuple[Any, Any, Any]:
    """The inputs, labels and ids of a batch, which may be read more than once."""
    if not (isinstance(batch, (tuple, list)) and len(batch) in (2, 3)):
        raise InputError(
            f"{name} must yield pairs of inputs and labels, but yielded a {type(batch).__name__}"
        )
    x, labels, ids = (*batch, None)[:3]
    seen = (list(each) if isinstance(each, Iterator) else each for each in (labels, ids))
    return (x, *seen)


def _grey(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Luminance, with Pillow's weights."""
    grey: NDArray[np.float32] = np.einsum(
        "nchw,c->nhw", images.astype(np.float32), [0.299, 0.587, 0.114]
    )
    return grey.round()[:, np.newaxis].astype(np.uint8)
