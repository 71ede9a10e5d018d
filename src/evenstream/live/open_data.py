"""Opens the data named on the command line: a file, a folder, a pipe or an address."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from evenstream.core.inputs import TEXTS
from evenstream.data.arrays import as_inputs, as_labels
from evenstream.data.checked_files import digest_of
from evenstream.data.dataset import Label
from evenstream.data.decoding import SUFFIXES as IMAGE_SUFFIXES
from evenstream.data.image_files import ImageFiles, OnCorrupt, check_size
from evenstream.data.images.trees import class_folders, image_names, labelled_images, sub_folders
from evenstream.data.npz import read_arrays
from evenstream.data.tables import (
    TABLE_SUFFIXES,
    Columns,
    TableReader,
    choose_columns,
    open_lines,
    open_table,
)
from evenstream.errors import DataError, InputError, calling, shown
from evenstream.files import with_home
from evenstream.learner.learner import Learner
from evenstream.live.label_kind import label_converter
from evenstream.live.pipe import first_bytes, read_lines
from evenstream.live.sources import (
    SOURCES,
    AddressSource,
    ArraySource,
    Source,
    SourceInfo,
    TableSource,
)
from evenstream.live.tally import Tally
from evenstream.tabular import SAMPLE_ROWS, TableEncoder, Wishes

PIPE = "standard input"
STDIN = 0
OnBad = Literal["stop", "skip", "null"]


@dataclass(frozen=True)
class Known:
    """What a saved learner knows about its inputs; nothing for a new one."""

    columns: Columns | None = None
    encoder: TableEncoder | None = None
    shape: tuple[int, ...] | None = None
    as_label: Callable[[Label], Label] = field(default_factory=lambda: label_converter([]))

    @classmethod
    def of(cls, learner: Learner, tally: Tally) -> Known:
        """What is known from the first batch on: columns, shape and kind of label."""
        columns = [
            place.notes["columns"] for place in tally.streams.values() if "columns" in place.notes
        ]
        shape = None if learner.input_kind is None else learner.input_kind.shape
        found = Columns.from_state(columns[-1]) if columns else None
        if found is not None:  # a stream may have been read before another one gave ids
            ids = [state["ids"] for state in columns if state.get("ids") is not None]
            found = replace(found, ids=ids[-1] if ids else None)
        if found is not None and learner.table is not None:
            found = replace(found, encoder=learner.table)
        return cls(
            found,
            learner.table,
            shape,
            label_converter(learner.labels),
        )


@dataclass(frozen=True)
class Reading:
    """How data is read."""

    label: str | None = None
    ignore: tuple[str, ...] = ()
    ids: str | None = None
    """The column of a table that holds the id of each row."""
    wishes: Wishes = field(default_factory=Wishes)
    """Kinds of columns set by the user, for a learner that has not seen any."""
    label_needed: bool = True
    """Whether there must be labels, as for learning."""
    texts: bool = False
    """Whether a new learner reads texts: one column of a table, as it is."""
    size: int | None = None
    """Height and width of images, for a learner that has not seen any."""
    bad: OnBad = "stop"
    """What to do with an unreadable row or image: stop, leave it out, or report it."""
    patience: float = 10.0
    """Seconds that a row from a pipe waits for a full batch."""

    def __post_init__(self) -> None:
        if self.size is not None:
            check_size(self.size)
        if not self.patience >= 0:
            raise InputError(f"patience must be 0 seconds or more, got {self.patience}")


def open_source(where: str, known: Known, reading: Reading) -> Source:
    """Open a table, an .npz file, a folder of images, one image, the standard input, or an address.

    Addresses, SCHEME://..., are opened by plugins.
    """
    path = with_home(where)
    is_table = where == "-" or path.suffix.lower() in TABLE_SUFFIXES
    if reading.ids is not None and not is_table:
        raise InputError(f"ids are a column of a table, which {where} is not")
    if reading.ids is None and reading.label_needed and is_table and known.columns is not None:
        reading = replace(reading, ids=known.columns.ids)
    if reading.ids is not None:
        reading = replace(reading, ignore=(*reading.ignore, reading.ids))
    if where == "-":
        return _open_pipe(known, reading)
    suffix = path.suffix.lower()
    scheme, colon, _ = where.partition("://")
    if colon and not path.exists():
        return _open_address(where, SOURCES.find(scheme))
    if not path.exists():
        raise DataError(f"there is no file or folder {path}")
    if path.is_dir() or suffix in IMAGE_SUFFIXES:
        return _open_images(path, known, reading)
    if suffix in TABLE_SUFFIXES:
        return _open_table(open_table(path), lambda: open_table(path), path.name, known, reading)
    if suffix == ".npz":
        return _open_npz(path, known, reading)
    raise DataError(
        f"{path} cannot be read; expected a table ({', '.join(TABLE_SUFFIXES)}), an .npz file, a "
        "folder of images, - for CSV or JSON lines from standard input, or an address "
        "(SCHEME://...)"
    )


def _open_address(address: str, info: SourceInfo) -> Source:
    with calling(f"what opens {address}"):
        try:
            source = AddressSource(address, info)
        except OSError as error:
            raise DataError(f"{address} cannot be opened: {error}") from error
    if not isinstance(source.stream, Iterable):
        raise DataError(
            f"{address}: its opener must return an iterable, but returned {shown(source.stream)}"
        )
    return source


def _open_pipe(known: Known, reading: Reading) -> Source:
    """Open the standard input; its first rows determine the columns for a new learner."""
    begin = b""
    if known.encoder is None and known.columns is None:
        begin = first_bytes(STDIN, SAMPLE_ROWS, reading.patience)

    def first_rows() -> TableReader:
        return open_lines(begin.splitlines(keepends=True), PIPE)

    return _open_table(open_lines(read_lines(STDIN, begin), PIPE), first_rows, PIPE, known, reading)


def _open_table(
    reader: TableReader,
    first_rows: Callable[[], TableReader],
    name: str,
    known: Known,
    reading: Reading,
) -> Source:
    reader.skip_bad, reader.keep_bad = reading.bad != "stop", reading.bad == "null"
    reader.may_skip = True
    reader.label_needed, reader.as_label = reading.label_needed, known.as_label
    reader.ids = reading.ids
    reader.may_grow = reading.label_needed and name != PIPE  # to be continued later
    try:
        columns = _columns(reader, first_rows, known, reading)
        if columns.ids != reading.ids:
            columns = replace(columns, ids=reading.ids)
        reader.check(columns)
        if reading.ids is not None and reading.ids not in reader.names:
            raise DataError(f"{reader.source} has no column {reading.ids!r} to take ids from")
        if reading.label_needed and columns.label not in reader.names:
            raise DataError(f"{reader.source} has no column {columns.label!r} to learn from")
    except BaseException:
        reader.close()
        raise
    return TableSource(name, reader, columns, reading.patience if name == PIPE else None)


def _columns(
    reader: TableReader, first_rows: Callable[[], TableReader], known: Known, reading: Reading
) -> Columns:
    """The columns that the learner knows, or those chosen for a new one."""
    if known.columns is not None:
        return _as_known(known.columns, reading)
    if known.encoder is not None:
        return _as_known(_of_encoder(reader, known.encoder, reading), reading)
    label, ignore, needed = reading.label, reading.ignore, reading.label_needed
    wishes, texts = reading.wishes, reading.texts or known.shape == TEXTS.shape
    if texts and (wishes.categorical or wishes.date):
        raise InputError("a text encoder reads one column of texts: leave out all but --text")
    with contextlib.closing(first_rows()) as first:
        first.may_grow = reader.may_grow
        columns = choose_columns(
            reader, first, label, ignore, wishes, label_needed=needed, texts=texts
        )
    if texts:
        return columns
    width = columns.how.width
    if known.shape not in (None, (width,)):
        raise DataError(
            f"{reader.source} gives {width} inputs per row, but the learner's have the shape "
            f"{known.shape}\n{columns.how.summary()}"
        )
    return columns


def _of_encoder(reader: TableReader, encoder: TableEncoder, reading: Reading) -> Columns:
    """The columns of a learner that learned tables in a program, with separate labels."""
    inputs = (*encoder.names, *encoder.left_out, *reading.ignore)
    others = [name for name in reader.names if name not in inputs]
    named = None if reading.label in inputs else reading.label
    label = Columns.choose(
        reader.source, [*encoder.names, *others], named, label_needed=reading.label_needed
    ).label
    encoder.check_names(reader.source, [*encoder.names, *(n for n in others if n != label)])
    return Columns(encoder.names, label, tuple(encoder.left_out), encoder)


def _as_known(columns: Columns, reading: Reading) -> Columns:
    """The columns that the learner knows; raises `InputError` for contradicting wishes."""
    if reading.label not in (None, columns.label):
        raise InputError(f"the learner's label is the column {columns.label}, not {reading.label}")
    if reading.ids in columns.features:
        raise InputError(
            f"ids cannot be added now: the column {reading.ids} is one of the learner's inputs; "
            f"start a new learner, in another folder, with --ids {reading.ids}"
        )
    known_ones = [name for name in reading.ignore if name in (*columns.features, columns.label)]
    if known_ones:
        raise InputError(f"the learner knows the column {known_ones[0]}, so it cannot be ignored")
    if reading.wishes.names:
        raise InputError(
            f"the learner already knows its columns; how to read {reading.wishes.names[0]} can "
            "only be chosen for a new learner, in another folder"
        )
    ignored = dict.fromkeys((*columns.ignored, *reading.ignore))
    return replace(columns, ignored=tuple(ignored))


def _open_npz(path: Path, known: Known, reading: Reading) -> Source:
    to_learn = [("x_train", "y_train"), ("x", "y")]
    to_predict = [("x_test", "y_test"), ("x", "y"), ("x",)]
    arrays = read_arrays(path, to_learn if reading.label_needed else to_predict)
    (which, values), *labelled = arrays.items()
    x = as_inputs(str(path), which, values)
    labels: list[Label | None] = [None] * len(x)
    for name, array in labelled:
        labels = _converted(str(path), known, as_labels(str(path), name, array, len(x)))
    return ArraySource(path.name, x, labels, digest_of(path, "sha256"))


def _open_images(path: Path, known: Known, reading: Reading) -> Source:
    size, grey = _image_form(path, known, reading)
    bad: OnCorrupt = "stop" if reading.bad == "stop" else "skip"
    root = path.resolve()
    if path.is_dir() and (reading.label_needed or sub_folders(root)):
        part = "train" if "train" in sub_folders(root) else ""
        classes = class_folders(root, part)
        files, y = labelled_images(root, part, classes, size, bad)
        names = _converted(str(path), known, classes)
        labels = [names[index] for index in y]
    elif reading.label_needed:
        raise DataError(f"{path} is one image; to learn, give a folder with one for each class")
    else:
        files = _unlabelled_images(root, size, bad)
        labels = [None] * len(files)
    source = ArraySource(root.name, files, labels, _listing_digest(files))
    source.grey, source.keep_bad = grey, reading.bad == "null"
    return source


def _unlabelled_images(path: Path, size: int, bad: OnCorrupt) -> ImageFiles:
    """One image, or all in a folder."""
    if not path.is_dir():
        return ImageFiles(path.parent, [path.name], size, bad)
    files = ImageFiles(path, image_names(path, ""), size, bad)
    if not len(files):
        raise DataError(f"there are no images in {path} ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return files


def _image_form(path: Path, known: Known, reading: Reading) -> tuple[int, bool]:
    """The size to which images are resized, and whether they are converted to grey."""
    if known.shape is None:
        return 64 if reading.size is None else reading.size, False
    if len(known.shape) != 3 or known.shape[0] not in (1, 3) or known.shape[1] != known.shape[2]:
        raise DataError(
            f"{path} holds images, but the learner's inputs have the shape {known.shape}"
        )
    channels, side, _ = known.shape
    if reading.size not in (None, side):
        raise DataError(f"the learner's images have {side} pixels per side, not {reading.size}")
    return side, channels == 1


def _converted(source: str, known: Known, labels: Sequence[Label]) -> list[Label | None]:
    try:
        return [known.as_label(label) for label in labels]
    except ValueError as error:
        raise DataError(f"{source}: {error}") from None


def _listing_digest(files: ImageFiles) -> str:
    """A checksum of the names and sizes of files; reading them all would take too long."""
    digest = hashlib.sha256()
    for row in range(len(files)):
        path = files.path(row)
        digest.update(os.fsencode(path.relative_to(files.root)))
        digest.update(f"\0{path.stat().st_size}\0".encode())
    return digest.hexdigest()
