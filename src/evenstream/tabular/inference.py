"""Detects the kind of each column from its cells in the first rows of a table."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenstream.errors import DataError, InputError
from evenstream.tabular.cells import (
    FORMATS,
    LARGEST,
    MISSING,
    TIME,
    TRUTH,
    Style,
    date_reader,
    is_missing,
    number_reader,
    text_of,
)
from evenstream.tabular.columns import (
    STAMP,
    BadCell,
    Category,
    Column,
    Date,
    Number,
    Text,
    hashed,
)

SAMPLE_ROWS = 1000
"""Number of rows used to detect the kinds of columns."""
ENOUGH_ROWS = 50
"""Kinds detected from fewer rows are warned of."""
EMPTY = "empty in the first rows"
"""Reason for leaving out a column without content."""
TEXT_INPUTS = 256
_MOST_INPUTS = 128
_FEW = 16
"""So many phrases are told apart as wholes."""
_MOSTLY = 0.8
_SEEDS = 64
_PROBE = 50

Cells = Sequence[Any] | NDArray[Any]


@dataclass(frozen=True)
class Wishes:
    """What the user specifies about columns, by name; others are recognised by their cells."""

    categorical: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    """Names, or NAME=FORMAT with a format of `strptime`."""

    def __post_init__(self) -> None:
        twice = [name for name, n in Counter(self.names).items() if n > 1]
        if twice:
            raise InputError(f"column {twice[0]!r} is given more than one kind; give it one")

    @property
    def dates(self) -> dict[str, str | None]:
        """The columns of dates, each with its format if that is given."""
        parts = (wish.partition("=") for wish in self.date)
        return {name: form or None for name, _, form in parts}

    @property
    def names(self) -> tuple[str, ...]:
        """All columns mentioned."""
        return (*self.categorical, *self.text, *self.dates)


def infer_columns(
    source: str,
    sample: Mapping[str, Cells],
    wishes: Wishes | None = None,
    *,
    comma: bool = False,
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Detect the columns of a table from its first rows, and those to leave out, with reasons.

    Args:
        source: what to call the table in messages.
        sample: the cells of each column, as they were read: text, Python values, or an array of
            numbers or of dates.
        wishes: what the user specifies about some columns.
        comma: whether 1,234 more likely has a decimal comma than a thousands separator.
    """
    wishes = wishes or Wishes()
    unknown = [name for name in wishes.names if name not in sample]
    if unknown:
        raise DataError(
            f"{source} has no column {unknown[0]!r} among its inputs: {', '.join(sample)}"
        )
    found = {name: _column(source, name, cells, wishes, comma) for name, cells in sample.items()}
    columns = tuple(column for column in found.values() if isinstance(column, Column))
    left_out = {name: why for name, why in found.items() if isinstance(why, str)}
    if not columns:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise DataError(f"{source} has no column to learn from ({why})")
    return columns, left_out


def _column(source: str, name: str, cells: Cells, wishes: Wishes, comma: bool) -> Column | str:
    if name in wishes.categorical:
        return _category(name, cells)
    if name in wishes.text:
        return _text(name, cells)
    if name in wishes.dates:
        return _wished_date(source, name, cells, wishes.dates[name])
    if isinstance(cells, np.ndarray):
        return _typed(name, cells)
    return _untyped(name, cells, comma)


def _typed(name: str, cells: NDArray[Any]) -> Column | str:
    if cells.dtype.kind == "M":
        return _date(name, cells, "iso", ())
    return _number(name, cells.astype(np.float64))


def _untyped(name: str, cells: Sequence[Any], comma: bool) -> Column | str:
    words = [text_of(cell) for cell in cells]
    said = [word for word in words if word is not None]
    present = [word for word in said if word.lower() not in MISSING]
    if not present:
        if cells and all(isinstance(cell, str) and cell.strip() for cell in cells):
            return _category(name, cells)
        return EMPTY
    styles: list[Style] = ["point", "comma", "grouped"] if comma else ["point", "grouped", "comma"]
    ways = [_way(present, number_reader(style)) for style in styles]
    best = max(range(len(ways)), key=lambda index: ways[index].read)
    style, extra = styles[best], ways[best].extra
    if extra is not None:
        column = Number(name, 0.0, style=style, missing=extra)
        return _number(name, _usable(column, cells), style, extra)
    form, extra = _date_form(present)
    if form is not None:
        return _date(name, cells, form, extra or ())
    if _is_text(said):
        return _text(name, cells)
    if len(said) >= _PROBE and len(set(said)) == len(words) and _are_ids(said):
        return "different in every row, so nothing can be learned from it"
    category = _category(name, cells)
    return replace(category, words=TEXT_INPUTS) if _are_phrases(said) else category


# ---- which way to read most of the cells ---------------------------------------------------------


@dataclass(frozen=True)
class _Way:
    """How well a way of reading the cells of a column fits."""

    read: int
    """Cells that can be read in this way; 0 if they are too few."""
    extra: tuple[str, ...] | None
    """Recurring words among the others, taken to mean missing; None if too many are something
    else."""


def _way(words: Sequence[str], reader: Callable[[str], Any]) -> _Way:
    others: Counter[str] = Counter()
    read = len(words)
    for word in words:
        try:
            reader(word)
        except ValueError:
            others[word.lower()] += 1
            read -= 1
            if read < _MOSTLY * len(words):
                return _Way(0, None)
    recurring = tuple(word for word, count in others.items() if count > 1)
    single = len(others) - len(recurring)
    fits = len(recurring) <= 3 and single <= max(1, 0.02 * len(words))
    return _Way(read, recurring if fits else None)


def _date_form(words: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The date format, if these are dates, and words for missing ones."""
    probe = words[:_PROBE]
    likely = [form for form in FORMATS if _way(probe, date_reader(form)).extra is not None]
    ways = {form: _way(words, date_reader(form)) for form in likely}
    best = max(ways, key=lambda form: ways[form].read, default=None)
    if best is None or ways[best].extra is None:
        return None, ()
    return best, ways[best].extra or ()


def _is_text(words: Sequence[str]) -> bool:
    distinct = len(set(words)) / len(words)
    spaces = sum(len(word.split()) for word in words) / len(words)
    return distinct > 0.5 and (spaces > 2.5 or _without_spaces(words))


def _are_ids(words: Sequence[str]) -> bool:
    """Whether few of these have a word in common with some of the others, but not with most."""
    found = Counter(itertools.chain.from_iterable(set(word.split()) for word in words))
    return sum(n for n in found.values() if 1 < n <= _MOSTLY * len(words)) < 0.1 * len(words)


def _are_phrases(words: Sequence[str]) -> bool:
    """Whether there are so many categories of several words that those they share may matter."""
    return len({word for word in words if " " in word}) > min(_FEW, 0.5 * len(words))


def _without_spaces(words: Sequence[str]) -> bool:
    """Whether these are sentences in a script without spaces between words."""
    characters = "".join(words)
    foreign = sum(character > "\u2e7f" for character in characters)
    return foreign > 0.5 * len(characters) and len(characters) > 6 * len(words)


# ---- making the columns --------------------------------------------------------------------------


def _usable(column: Column, cells: Cells) -> NDArray[np.float64]:
    """The cells that can be read."""
    found = []
    for cell in cells:
        try:
            found.append(column.read(cell))
        except ValueError:
            continue
    return np.array(found, np.float64)


def _number(
    name: str, values: NDArray[np.float64], style: Style = "point", extra: tuple[str, ...] = ()
) -> Column | str:
    gaps = np.isnan(values)
    if len(values) and gaps.all():
        return EMPTY
    known = values[np.abs(values) <= LARGEST]
    flagged = bool(gaps.any())
    fill = float(np.float32(np.median(known))) if len(known) else 0.0
    return Number(name, fill, flagged=flagged, style=style, missing=extra)


def _wished_date(source: str, name: str, cells: Cells, form: str | None) -> Column | str:
    if isinstance(cells, np.ndarray):
        return _date(name, cells, "iso" if cells.dtype.kind == "M" else STAMP, ())
    words = [word for cell in cells if (word := text_of(cell)) and word.lower() not in MISSING]
    extra: tuple[str, ...] = ()
    if form is None and _are_stamps(words):
        form = STAMP
    elif form is None:
        form, extra = _date_form(words)
    elif _way(words, date_reader(form)).extra is None:
        raise DataError(
            f"{source}: column {name!r} is not written as {form}; it has {words[0][:60]!r}"
        )
    if form is None:
        raise DataError(
            f"{source}: column {name!r} is not known to be dates; it has "
            f"{(words or [''])[0][:60]!r}. Say how they are written: --date '{name}=%d.%m.%Y'"
        )
    return _date(name, cells, form, extra)


def _are_stamps(words: Sequence[str]) -> bool:
    """Whether these numbers could be seconds since 1970, from 1973 on."""
    return bool(words) and all(_is_number(word) and abs(float(word)) >= 1e8 for word in words)


def _date(name: str, cells: Cells, form: str, extra: tuple[str, ...]) -> Column | str:
    column = Date(name, form, missing=extra)
    try:
        seconds = np.asarray(column.read_all(cells), np.float64)
    except BadCell:
        seconds = _usable(column, cells)
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        return EMPTY
    dated = form != TIME and not bool(np.all(np.abs(known) < 86_400))
    timed = not dated or bool(np.any(known % 86_400))
    flagged = bool(np.isnan(seconds).any())
    origin = float(np.floor(np.median(known))) if dated else 0.0
    return Date(name, form, origin, dated, timed, flagged, extra)


def _category(name: str, cells: Cells) -> Category:
    words = [word for cell in cells if (word := text_of(cell)) is not None]
    numbers = bool(words) and all(map(_is_number, words))
    plain = Category(name, numbers=numbers)
    values = sorted({plain.read(cell) for cell in cells})
    inputs = min(max(4, 1 << math.ceil(math.log2(2 * max(len(values), 1)))), _MOST_INPUTS)
    return Category(name, inputs, _best_seed(values, inputs), numbers)


def _best_seed(values: Sequence[str], inputs: int) -> int:
    """The seed for which the fewest words share an input and sign."""

    def distinct(seed: int) -> int:
        places, signs = hashed(values, seed, inputs)
        return len(set(zip(places.tolist(), signs.tolist(), strict=True)))

    return max(range(_SEEDS), key=lambda seed: (distinct(seed), -seed))


def _is_number(word: str) -> bool:
    try:
        return word.lower() not in TRUTH and math.isfinite(number_reader("point")(word))
    except ValueError:
        return False


def _text(name: str, cells: Cells) -> Column:
    words = [word for cell in cells if not is_missing(cell) and (word := text_of(cell))]
    unit = "character" if words and _without_spaces(words) else "word"
    return Text(name, TEXT_INPUTS, unit)
