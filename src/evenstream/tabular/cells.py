"""Reads a single cell of a table: a number, a moment in time, a word, or nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, Literal

import numpy as np

from evenstream.numerals import read_number

LARGEST = float(np.finfo(np.float32).max)
MISSING = frozenset(
    (
        *("", "?", "-", "--", "na", "n/a", "#n/a", "<na>", "nan", "nat", "nil", "null", "none"),
        *("missing", "unknown"),
    )
)
"""Words for a missing number or date, in lower case."""
TRUTH = {"true": 1.0, "false": 0.0}

Style = Literal["point", "comma", "grouped"]
"""Ways to write decimals: 1234.5, 1.234,5 or 1,234.5; the last two also with $, € or %."""

_AROUND = "$€£¥% \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_POWER = r"(?:[eE][+-]?\d+)?"
_COMMA = re.compile(rf"[+-]?(?:\d{{1,3}}(?:\.\d{{3}})+|\d+)(?:,\d+)?{_POWER}", re.ASCII)
_GROUPED = re.compile(rf"[+-]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?{_POWER}", re.ASCII)


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty; NaN and pandas' NA and NaT count as empty."""
    return cell is None or (not isinstance(cell, str) and _differs_from_itself(cell))


def _differs_from_itself(cell: Any) -> bool:
    try:
        return bool(cell != cell)
    except (TypeError, ValueError):  # pandas' NA has no truth value, and an array has several
        return not isinstance(cell, (list, dict, np.ndarray))


def says_something(cell: Any) -> bool:
    """Whether a cell holds anything but a word for a missing value."""
    word = text_of(cell)
    return word is not None and word.lower() not in MISSING


def text_of(cell: Any) -> str | None:
    """A cell as text, or None if it is empty; 3.0 is written as 3."""
    if isinstance(cell, str):
        return cell.strip() or None
    if is_missing(cell):
        return None
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    if isinstance(cell, (list, dict)):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return str(cell).strip() or None


def number_reader(style: Style) -> Callable[[str], float]:
    """A function that parses text as a number; raises `ValueError` if it is not one."""
    return {"point": _read_point, "comma": _read_comma, "grouped": _read_grouped}[style]


def _read_point(text: str) -> float:
    word = text.strip().lower()
    return TRUTH[word] if word in TRUTH else read_number(word, float)


def _read_comma(text: str) -> float:
    plain = _bare(text)
    if _COMMA.fullmatch(plain):
        return float(plain.replace(".", "").replace(",", "."))
    raise ValueError(f"{text!r} is not a number with a decimal comma")


def _read_grouped(text: str) -> float:
    plain = _bare(text)
    if _GROUPED.fullmatch(plain):
        return float(plain.replace(",", ""))
    raise ValueError(f"{text!r} is not a number")


def _bare(text: str) -> str:
    """A number without its currency or percent sign."""
    plain = text.strip(_AROUND)
    sign = plain[:1] if plain[:1] in ("+", "-") else ""
    return sign + plain.removeprefix(sign).lstrip(_AROUND)


# ---- dates and times -----------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1)
ISO, TIME = "iso", "time"
_DAYS = (
    *("%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d-%m-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%a, %d %b %Y"),
    *("%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%Y%m%d"),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
FORMATS = (ISO, TIME, *(day + hour for hour in _TIMES for day in _DAYS))
"""Date formats for `strptime`. The first that fits is used, so if both are possible, 1/2/2024 is in
January."""


def date_reader(form: str) -> Callable[[str], datetime]:
    """A function that parses text as a moment, ignoring time zones; raises `ValueError`."""
    if form == ISO:
        return lambda text: datetime.fromisoformat(text).replace(tzinfo=None)
    if form == TIME:
        return _read_time
    return lambda text: datetime.strptime(text, form).replace(tzinfo=None)


def _read_time(text: str) -> datetime:
    if ":" not in text:  # digits alone could mean anything
        raise ValueError(f"{text!r} is not a time of day")
    return datetime.combine(EPOCH, time.fromisoformat(text)).replace(tzinfo=None)


def seconds_of(moment: date | time) -> float:
    """Seconds since 1970 in local time as written; for a time of day, since midnight."""
    if isinstance(moment, time):
        moment = datetime.combine(EPOCH, moment)
    elif not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return (moment.replace(tzinfo=None) - EPOCH).total_seconds()


def seconds_of_stamp(stamp: float) -> float:
    """Seconds since 1970 for a number of seconds, milli-, micro- or nanoseconds."""
    for unit in (1.0, 1e3, 1e6, 1e9):
        if abs(stamp) < 1e11 * unit:  # the year 5138
            return stamp / unit
    return math.nan if math.isnan(stamp) else math.inf
