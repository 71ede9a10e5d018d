"""Numbers in words and figures, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evenstream.statistics import Interval

OVER_BUDGET = "over budget"
"""The mark of a method that costs more than it may."""


def plain(value: float | None, digits: int = 1) -> str:
    """Return a number with a proper minus sign, or a dash when it is `None` or NaN."""
    if value is None or value != value:
        return "–"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def signed(value: float, digits: int = 1) -> str:
    """Return a number with its sign; zero has none."""
    text = plain(value, digits)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"


def format_spread(spread: Interval | None, digits: int = 1) -> str:
    """Return "mean ± std", the mean alone for one seed, or a dash when there is no value."""
    if spread is None:
        return plain(None)
    mean = plain(spread.mean, digits)
    return mean if spread.std is None else f"{mean} ± {spread.std:.{digits}f}"


def format_interval(interval: Interval | None, digits: int = 1) -> str:
    """Return "+mean [low, high]", the mean alone for one pair, or a dash."""
    if interval is None:
        return plain(None)
    mean = signed(interval.mean, digits)
    if interval.low is None or interval.high is None:
        return mean
    return f"{mean} [{signed(interval.low, digits)}, {signed(interval.high, digits)}]"


def verdict(accuracy: Interval | None) -> str:
    """Say in three words what a difference in A_T tells."""
    if accuracy is None or accuracy.low is None:
        return "one seed only"
    if not accuracy.excludes_zero:
        return "no clear difference"
    return "more accurate" if accuracy.mean > 0 else "less accurate"


def shorten(name: str, limit: int) -> str:
    """Return a name that is cut if it has more characters than `limit`."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def common(values: Iterable[object]) -> str:
    """Return the value if all runs agree, else up to three of them; empty if there is none."""
    found = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    if len(found) > 3:
        return f"differs between runs ({found[0]}, …)"
    return " / ".join(found)


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted whole numbers in short: 0–4, 7."""
    groups: list[list[int]] = []
    for n in numbers:
        if groups and n == groups[-1][-1] + 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    return ", ".join(f"{g[0]}–{g[-1]}" if len(g) > 2 else ", ".join(map(str, g)) for g in groups)
