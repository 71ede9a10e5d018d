"""Means over seeds, paired differences between methods, and both as terminal tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenstream.errors import InputError
from evenstream.report.runs import number
from evenstream.statistics import mean_std, paired_difference

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "format_interval",
    "format_spread",
    "render_table",
    "seconds_digits",
    "summarise",
    "verdict",
]

_MEASURES = ("A_T", "F_T", "train_seconds")


def summarise(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum up runs over seeds and compare the methods seed by seed.

    Args:
        runs: the contents of the runs' `metrics.json`, in the order in which the methods are to
            appear. Only those with the status "finished" count.

    Returns:
        A dictionary that can be written to JSON. `methods` maps each method to its `seeds` and,
        for `A_T`, `F_T` and `train_seconds`, to `mean`, `std` (sample deviation) and `values`
        (one for each seed). `differences` is a list with an entry for each pair of methods with
        a common seed: `method` minus `baseline`, where the baseline came earlier, with the mean
        and 95 % interval of `A_T` and `F_T`. `unfinished` lists the runs left out. What is not
        defined is `None`.

    Raises:
        InputError: a seed of a method occurs twice.
    """
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    unfinished = []
    for run in runs:
        if run.get("status") != "finished":
            entry = {key: run.get(key) for key in ("method", "seed", "status")}
            unfinished.append(entry)
            continue
        method, seed = str(run["method"]), int(run["seed"])
        if seed in groups.setdefault(method, {}):
            raise InputError(f"seed {seed} of {method!r} occurs more than once")
        groups[method][seed] = run
    names = list(groups)
    methods = {
        name: {
            "seeds": list(seeds),
            **{key: _spread([run.get(key) for run in seeds.values()]) for key in _MEASURES},
        }
        for name, seeds in groups.items()
    }
    differences = [
        pair
        for later in range(1, len(names))
        for earlier in range(later)
        if (pair := _difference(names[later], names[earlier], groups)) is not None
    ]
    return {
        "format": 1,
        "methods": methods,
        "differences": differences,
        "unfinished": unfinished,
    }


def render_table(summary: Mapping[str, Any]) -> list[Table]:
    """Return the results table and, if two methods share a seed, the table of differences."""
    from rich.table import Table
    from rich.text import Text

    methods: Mapping[str, Any] = summary["methods"]
    results = Table(title="Results over seeds", title_justify="left")
    results.add_column("Method", overflow="fold")
    headings = ("A_T %\nhigher is better", "F_T points\nlower is better", "Seeds", "Seconds")
    for heading in headings:
        results.add_column(heading, justify="right", no_wrap=True)
    for name, entry in methods.items():
        results.add_row(
            Text(name),
            format_spread(entry["A_T"]),
            format_spread(entry["F_T"]),
            str(len(entry["seeds"])),
            format_spread(entry["train_seconds"], seconds_digits(entry)),
        )
    tables = [results]
    if summary["differences"]:
        table = Table(
            title="Paired differences on the same seeds, with 95 % intervals",
            title_justify="left",
            show_lines=True,
        )
        table.add_column("Pair", overflow="fold")
        for heading in ("A_T", "F_T", "Seeds"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("In words", min_width=10, max_width=13)
        for entry in summary["differences"]:
            table.add_row(
                Text(f"{entry['method']}\nminus {entry['baseline']}"),
                format_interval(entry["A_T"]).replace(" [", "\n\\["),
                format_interval(entry["F_T"]).replace(" [", "\n\\["),
                str(len(entry["seeds"])),
                verdict(entry["A_T"]),
            )
        tables.append(table)
    return tables


def format_spread(spread: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Return "mean ± std", the mean alone for one seed, or a dash when there is no value."""
    if spread is None or spread["mean"] is None:
        return "–"
    mean = f"{_plain(spread['mean'], digits)}"
    return mean if spread["std"] is None else f"{mean} ± {spread['std']:.{digits}f}"


def seconds_digits(entry: Mapping[str, Any]) -> int:
    """Return the digits to show of a method's training seconds: two for short runs."""
    mean = entry["train_seconds"]["mean"]
    return 2 if mean is not None and mean < 10 else 1


def format_interval(interval: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Return "+mean [low, high]", the mean alone for one pair, or a dash."""
    if interval is None:
        return "–"
    mean = _signed(interval["mean"], digits)
    if interval["low"] is None:
        return mean
    return f"{mean} [{_signed(interval['low'], digits)}, {_signed(interval['high'], digits)}]"


def verdict(accuracy: Mapping[str, Any] | None) -> str:
    """Say in three words what a difference in A_T tells."""
    if accuracy is None or accuracy["low"] is None:
        return "one seed only"
    if accuracy["low"] > 0:
        return "more accurate"
    if accuracy["high"] < 0:
        return "less accurate"
    return "no clear difference"


def _spread(raw: Sequence[object]) -> dict[str, Any]:
    values = [number(value) for value in raw]
    known = [value for value in values if value is not None]
    mean, std = mean_std(known) if known else (None, None)
    return {"mean": mean, "std": std, "values": values}


def _difference(
    later: str, earlier: str, groups: Mapping[str, Mapping[int, Mapping[str, Any]]]
) -> dict[str, Any] | None:
    seeds = [seed for seed in groups[later] if seed in groups[earlier]]
    if not seeds:
        return None
    entry: dict[str, Any] = {"method": later, "baseline": earlier, "seeds": seeds}
    for key in ("A_T", "F_T"):
        pairs = [
            (a, b)
            for seed in seeds
            if (a := number(groups[later][seed].get(key))) is not None
            and (b := number(groups[earlier][seed].get(key))) is not None
        ]
        entry[key] = paired_difference(*zip(*pairs, strict=True)).as_dict() if pairs else None
    return entry


def _plain(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def _signed(value: float, digits: int) -> str:
    text = _plain(value, digits)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"
