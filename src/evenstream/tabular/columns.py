"""The kinds of columns, each of which turns its cells into a fixed number of inputs.

Every cell is encoded independently, so a row gives the same inputs in any batch and process.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, time, timedelta
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from evenstream.tabular.cells import (
    EPOCH,
    ISO,
    LARGEST,
    MISSING,
    TIME,
    Style,
    date_reader,
    is_missing,
    number_reader,
    seconds_of,
    seconds_of_stamp,
    text_of,
)

Floats = NDArray[np.float64]
Inputs = NDArray[np.float32]

_DAY, _WEEK, _YEAR = 86_400.0, 7 * 86_400.0, 365.2425 * 86_400.0
_WIDEST = 1 << 16
_WORDS = re.compile(r"\w+")
STAMP = "stamp"
"""The format of numeric dates: seconds since 1970, or milli-, micro- or nanoseconds."""


class WrongKind(ValueError):
    """A cell that is not what its column holds."""


class BadCell(ValueError):
    """A cell that its column cannot read, with its row."""

    def __init__(self, row: int, why: str, wrong_kind: bool = False) -> None:
        super().__init__(why)
        self.row, self.wrong_kind = row, wrong_kind


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and how its cells become inputs."""

    name: str
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            kinds = _KINDS[str(field.type)]
            value = getattr(self, field.name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise TypeError(f"{field.name} of column {self.name!r} is {value!r}")

    @property
    def width(self) -> int:
        """Number of inputs it produces."""
        raise NotImplementedError

    @property
    def inputs_in_words(self) -> list[str]:
        """What each input is."""
        return [f"{self.name}: {what}" for what in self._inputs()]

    def _inputs(self) -> list[str]:
        raise NotImplementedError

    def read(self, cell: Any) -> Any:
        """Read a cell as a number (NaN if missing) or text; raises `ValueError` if it cannot."""
        raise NotImplementedError

    def read_all(self, cells: Any) -> Sequence[Any] | Floats:
        """Read many cells, a list or an array; raises `BadCell` for the first bad one."""
        found: list[Any] = []
        for row, cell in enumerate(cells):
            try:
                found.append(self.read(cell))
            except ValueError as error:
                raise BadCell(row, str(error), isinstance(error, WrongKind)) from None
        return found

    def encode(self, values: Sequence[Any] | Floats) -> Inputs:
        """The inputs for cells that were read, one row each."""
        raise NotImplementedError

    @property
    def when(self) -> Inputs:
        """Inputs that say when a row came, as at the origin; NaN for all others."""
        return np.full(self.width, np.nan, np.float32)

    @property
    def note(self) -> str:
        """Its description in a summary."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {"kind": self.kind, **plain}


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "float | None": (float, int, type(None)),
    "tuple[str, ...]": (tuple,),
    "Style": (str,),
}


@dataclass(frozen=True)
class Number(Column):
    """A number or boolean, unchanged; an extra input flags missing values."""

    fill: float | None = None
    """Replacement for a missing number; None means that a row without it is unusable."""
    flagged: bool = False
    """Whether an extra input flags missing values."""
    style: Style = "point"
    missing: tuple[str, ...] = ()
    """Additional words for a missing number, in lower case."""
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.style not in get_args(Style) or (self.flagged and self.fill is None):
            raise ValueError(f"column {self.name!r} has an unknown format")

    @property
    def width(self) -> int:
        """Number of inputs it produces."""
        return 1 + self.flagged

    def _inputs(self) -> list[str]:
        return ["the number", "1 if it is missing, else 0"][: self.width]

    @property
    def plain(self) -> bool:
        """Whether its only input is the number itself."""
        return not self.flagged and self.style == "point" and not self.missing

    @cached_property
    def _reader(self) -> Callable[[str], float]:
        return number_reader(self.style)

    def read(self, cell: Any) -> float:
        """The number in a cell, NaN if it is missing."""
        return self.checked(self._number(cell))

    def checked(self, value: float) -> float:
        """The number, or NaN if missing values are filled; raises `ValueError` if unusable."""
        if abs(value) <= LARGEST or (self.fill is not None and math.isnan(value)):
            return value
        why = "is missing" if math.isnan(value) else f"is {value}, too large for 32-bit floats"
        raise ValueError(f"column {self.name!r} {why}; fill or drop it")

    def _number(self, cell: Any) -> float:
        if isinstance(cell, str):
            word = cell.strip().lower()
            if word in MISSING or word in self.missing:
                return math.nan
        elif is_missing(cell):
            return math.nan
        try:
            return self._reader(cell) if isinstance(cell, str) else float(cell)
        except OverflowError:
            return math.inf
        except (ValueError, TypeError):
            raise WrongKind(f"column {self.name!r} is {str(cell)[:60]!r}, not a number") from None

    def read_all(self, cells: Any) -> Sequence[float] | Floats:
        """Read many cells; arrays are processed without a loop."""
        if not (isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf"):
            return super().read_all(cells)
        values = cells.astype(np.float64)
        usable = np.abs(values) <= LARGEST
        if self.fill is not None:
            usable |= np.isnan(values)
        if not usable.all():
            row = int(np.argmin(usable))
            raise BadCell(
                row, f"column {self.name!r} is missing or not finite ({values[row]}); fill or drop"
            )
        return values

    def encode(self, values: Sequence[Any] | Floats) -> Inputs:
        """The number, and whether it was missing."""
        found = np.asarray(values, np.float64)
        gaps = np.isnan(found)
        x = np.empty((len(found), self.width), np.float32)
        x[:, 0] = np.where(gaps, 0.0 if self.fill is None else self.fill, found)
        if self.flagged:
            x[:, 1] = gaps
        return x

    @property
    def note(self) -> str:
        """Its description in a summary."""
        said = []
        if self.style != "point":
            said.append(f"written like {'1.234,5' if self.style == 'comma' else '1,234.5'}")
        if self.missing:
            said.append(f"{' and '.join(map(repr, self.missing))} count as missing")
        if self.flagged:
            said.append(f"missing: {self.fill:g} and a flag")
        return "; ".join(said)


@dataclass(frozen=True)
class Date(Column):
    """A date, a time or both: how late it is, and its place in the year, week and day."""

    form: str = ISO
    origin: float = 0.0
    """Origin from which years are counted, in seconds since 1970."""
    dated: bool = True
    """Whether there are dates, or only times of day."""
    timed: bool = False
    """Whether there are times of day."""
    flagged: bool = False
    missing: tuple[str, ...] = ()
    kind: ClassVar[str] = "date"

    @property
    def width(self) -> int:
        """Number of inputs it produces."""
        return 5 * self.dated + 2 * self.timed + self.flagged

    def _inputs(self) -> list[str]:
        since = (EPOCH + timedelta(seconds=self.origin)).isoformat(" ")
        years = [f"years of 365.2425 days since {since}"] if self.dated else []
        circles = ["year", "week"] * self.dated + ["day"] * self.timed
        parts = [f"{part} of the place in the {of}" for of in circles for part in ("sin", "cos")]
        return [*years, *parts, *["1 if it is missing, else 0"] * self.flagged]

    @cached_property
    def _reader(self) -> Callable[[str], Any]:
        return date_reader(self.form)

    def read(self, cell: Any) -> float:
        """Seconds since 1970, NaN if it is missing."""
        if isinstance(cell, str):
            cell = cell.strip()
            if cell.lower() in MISSING or cell.lower() in self.missing:
                return math.nan
        elif is_missing(cell):
            return math.nan
        try:
            return self._seconds(cell)
        except (ValueError, TypeError, OverflowError):
            raise WrongKind(
                f"column {self.name!r} is {str(cell)[:60]!r}, not a date or time {self._like}"
            ) from None

    def _seconds(self, cell: Any) -> float:
        if isinstance(cell, (date, time)):
            return seconds_of(cell)
        if self.form == STAMP or not isinstance(cell, str):
            seconds = seconds_of_stamp(float(cell))
            if math.isinf(seconds):
                raise ValueError("no such moment")
            return seconds
        return seconds_of(self._reader(cell))

    @property
    def _like(self) -> str:
        known = {ISO: "as in 2024-01-31", TIME: "as in 14:30", STAMP: "in seconds since 1970"}
        return known.get(self.form, f"as in {self.form}")

    def read_all(self, cells: Any) -> Sequence[float] | Floats:
        """Read many cells; arrays are processed without a loop."""
        if not (isinstance(cells, np.ndarray) and cells.dtype.kind == "M"):
            return super().read_all(cells)
        seconds = cells.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(cells), np.nan, seconds)

    def encode(self, values: Sequence[Any] | Floats) -> Inputs:
        """Years since the origin, and positions on circles; zeros if missing."""
        seconds = np.asarray(values, np.float64)
        gaps = np.isnan(seconds)
        seconds = np.where(gaps, self.origin, seconds)
        parts = []
        if self.dated:
            days = np.floor(seconds / _DAY) * _DAY
            parts += [(seconds - self.origin) / _YEAR, *_circle(days, _YEAR), *_circle(days, _WEEK)]
        if self.timed:
            parts += _circle(seconds, _DAY)
        x = np.stack(parts, 1)
        x[gaps] = 0
        return np.column_stack([x, gaps] if self.flagged else [x]).astype(np.float32)

    @property
    def when(self) -> Inputs:
        """Trend and season; weekdays and times of day come again."""
        values = super().when
        if self.dated:
            values[:3] = self.encode([self.origin])[0, :3]
        return values

    @property
    def note(self) -> str:
        """Its description in a summary."""
        parts = ["trend", "season", "weekday"] * self.dated + ["time of day"] * self.timed
        read = {ISO: "", TIME: "", STAMP: "a number; "}.get(self.form, f"read as {self.form}; ")
        return read + ", ".join(parts)


def _circle(seconds: Floats, period: float) -> list[Floats]:
    angle = 2 * np.pi * (seconds / period % 1)
    return [np.sin(angle), np.cos(angle)]


@dataclass(frozen=True)
class Category(Column):
    """A category, known in advance or not: hashed to an input of 1 or -1.

    One of several words may also be read as `Text`: categories that share a word are then alike.
    """

    inputs: int = 8
    seed: int = 0
    """Seed of the hash, chosen so that the categories of the first rows do not collide."""
    numbers: bool = False
    """Whether the categories are numbers, so that 3 and 3.0 are the same."""
    words: int = 0
    """Number of inputs for word counts."""
    kind: ClassVar[str] = "category"

    def _inputs(self) -> list[str]:
        own = [f"1 or -1 for categories with the hash {place}" for place in range(self.inputs)]
        return own + (self._phrase._inputs() if self.words else [])

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.inputs <= _WIDEST and 0 <= self.words <= _WIDEST):
            raise ValueError(
                f"column {self.name!r} cannot have {self.inputs} and {self.words} inputs"
            )

    @property
    def width(self) -> int:
        """Number of inputs it produces."""
        return self.inputs + self.words

    @cached_property
    def _phrase(self) -> Text:
        return Text(self.name, self.words)

    def read(self, cell: Any) -> str:
        """The word; a missing value counts as a word as well."""
        word = text_of(cell) or ""
        if self.numbers and word:
            try:
                value = float(word)
                return str(int(value)) if value.is_integer() else repr(value)
            except (ValueError, OverflowError):
                pass
        return word

    def encode(self, values: Sequence[Any] | Floats) -> Inputs:
        """1 or -1 at the category's input, zeros elsewhere; then its word counts."""
        places, signs = hashed(values, self.seed, self.inputs)
        x = np.zeros((len(places), self.inputs), np.float32)
        x[np.arange(len(places)), places] = signs
        return np.concatenate([x, self._phrase.encode(values)], 1) if self.words else x

    @property
    def note(self) -> str:
        """Its description in a summary."""
        words = f", its words to {self.words}" if self.words else ""
        return f"hashed to {self.inputs} inputs{words}"

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint; without words, as in versions that did not count them."""
        return {name: v for name, v in super().state().items() if name != "words" or v}


def hashed(words: Sequence[Any] | Floats, seed: int, inputs: int) -> tuple[Any, Any]:
    """The input of each word, and its sign; as in scikit-learn's `FeatureHasher`."""
    from sklearn.utils import murmurhash3_32

    found = [murmurhash3_32(word.encode(errors="replace"), seed) for word in words]
    hashes = np.array(found, np.int64)
    return np.abs(hashes) % inputs, np.where(hashes < 0, -1.0, 1.0)


@dataclass(frozen=True)
class Text(Column):
    """Free text as hashed word counts, normalised to length 1; all zeros if missing."""

    inputs: int = 256
    unit: str = "word"
    """What is counted: word, or character for scripts without spaces."""
    kind: ClassVar[str] = "text"

    def _inputs(self) -> list[str]:
        return [f"{self.unit}s with the hash {place}" for place in range(self.inputs)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.inputs <= _WIDEST or self.unit not in ("word", "character"):
            raise ValueError(f"column {self.name!r} has an unknown format")

    @property
    def width(self) -> int:
        """Number of inputs it produces."""
        return self.inputs

    def read(self, cell: Any) -> str:
        """The text; empty if missing."""
        return text_of(cell) or ""

    @cached_property
    def _hasher(self) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        split = _words if self.unit == "word" else _characters
        return HashingVectorizer(n_features=self.inputs, analyzer=split, norm=None)

    def encode(self, values: Sequence[Any] | Floats) -> Inputs:
        """Counts of words, divided by their length as a vector."""
        counts = self._hasher.transform(values).toarray()
        length = np.sqrt((counts**2).sum(1, keepdims=True))
        x: Inputs = (counts / np.maximum(length, 1.0)).astype(np.float32)
        return x

    @property
    def note(self) -> str:
        """Its description in a summary."""
        return f"{self.unit}s hashed to {self.inputs} inputs"


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def _characters(text: str) -> list[str]:
    """Characters and pairs of them."""
    plain = "".join(_words(text))
    return [*plain, *map("".join, itertools.pairwise(plain))]


COLUMNS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Date, Category, Text)}


def column_from_state(state: dict[str, Any]) -> Column:
    """The inverse of `Column.state`, even after a round trip through JSON."""
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in state.items() if k != "kind"
    }
    return COLUMNS[state["kind"]](**values)
