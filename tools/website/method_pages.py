"""A page for each method, from its code, what docs/methods has on it, and the stored runs."""

from __future__ import annotations

import re
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from html import escape
from pathlib import Path

from evenstream.choosing import ALIASES
from evenstream.cli.descriptions import COST, facts_of, idea, options_of
from evenstream.composition import LogitAdjustment, compose
from evenstream.methods import METHODS
from evenstream.report.packed import PACKED, PackedRun, read_packed
from evenstream.text import MethodText
from tools.website.drawings import drawing_of
from tools.website.page import Page, table

COMPLETED = "<!-- The site completes this page from the code: tools/website/method_pages.py -->"
TITLES = {"needs": "Needs", "cost": "Cost", "paper": "Source", "policies": "Made of"}
Study = tuple[str, ...]


def method_pages(docs: Path) -> list[Page]:
    """All pages, in the order of their names."""
    formulas = tomllib.loads((docs / "methods" / "formulas.toml").read_text(encoding="utf-8"))
    results = _results(docs / "results")
    return [
        Page(path, name, _text(name, _written(name, docs / path), formulas, results))
        for name in sorted(METHODS)
        if METHODS[name].__module__.startswith("evenstream.")
        for path in [f"methods/{slug(name)}.md"]
    ]


def _written(name: str, path: Path) -> str:
    """What somebody wrote about a method, without the title; empty if nobody did."""
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    start = f"# `{name}`\n\n{COMPLETED}\n"
    if not text.startswith(start):
        raise ValueError(f"{path} must begin with {start!r}")
    return text.removeprefix(start).strip()


def slug(name: str) -> str:
    """A method's name as part of an address."""
    return name.replace("+", "p")


def link_methods(index: str) -> str:
    """The overview, with the names in the first columns of its tables linked to their pages."""

    def linked(match: re.Match[str]) -> str:
        name = match[1]
        return f"| [`{name}`]({slug(name)}.md) |" if name in METHODS else match[0]

    return re.sub(r"^\| `([^`]+)` \|", linked, index, flags=re.MULTILINE)


def _text(
    name: str,
    written: str,
    formulas: dict[str, dict[str, str]],
    results: dict[str, list[list[str]]],
) -> str:
    method = compose(name).method
    parts = [f"# `{name}`", idea(type(method)), *_formula(formulas[name])]
    if drawing := drawing_of(name):
        parts += ["## In a drawing", drawing]
    parts += ["## At a glance", _glance(name)]
    rows = [[f"`{key}`", f"`{value}`", meaning] for key, value, meaning in options_of(method)]
    parts += ["## Options", table(["option", "default", "meaning"], rows) if rows else "None."]
    if method.why_not_las is None:
        known = ", ".join(f"`{option}`" for option, *_ in options_of(LogitAdjustment()))
        parts.append(f"`{name}-las` also has {known}: see [LAS explained](../concepts/las.md).")
    parts += [written, "## Results", _results_text(name, results.get(name, []))]
    cls = METHODS[name]
    parts += ["## In Python", f"::: {cls.__module__}.{cls.__qualname__}"]
    return "\n\n".join(parts) + "\n"


def _formula(formula: dict[str, str]) -> Iterator[str]:
    lines = escape(formula["lines"].strip())
    yield f'<div class="formula" markdown="0">{lines}</div>'
    yield f"{formula['words']} ([Notation](index.md#notation))"


def _glance(name: str) -> str:
    composition = compose(name)
    method = composition.method
    forms = [name] + ([f"{name}-las"] if method.why_not_las is None else [])
    forms += [alias for alias, meant in ALIASES.items() if meant in forms]
    rows = [[TITLES[title], text] for title, text in facts_of(composition)]
    if method.why_not_las is not None:
        rows.append(["No `-las` form", method.why_not_las])
    header = ["Written", ", ".join(f"`{form}`" for form in forms)]
    return f"{table(header, rows)}\n\n*Cost of a step: {COST}.*"


def _results(folder: Path) -> dict[str, list[list[str]]]:
    """For each method, a row for each setting that finished runs are stored of."""
    studies: dict[Study, list[PackedRun]] = defaultdict(list)
    for file in sorted(folder.glob(f"*{PACKED}")):
        for run in read_packed(file):
            studies[_study(file.name, run)].append(run)
    rows: dict[str, list[list[str]]] = defaultdict(list)
    for study, runs in studies.items():
        rows[MethodText.read(study[0]).plain_name].append(_row(study, runs))
    return rows


def _study(file: str, run: PackedRun) -> Study:
    config = run.config
    settings = (config["method"], config["stream"], config["network"])
    rest = (f"{config['memory']:,}", f"{config['lr']:g}", str(config.get("epochs", 1)))
    return (*settings, *rest, file)


def _row(study: Study, runs: list[PackedRun]) -> list[str]:
    method, stream, network, memory, lr, epochs, file = study
    link = f"[runs](../results/{file})"
    numbers = [_mean(runs, "A_T"), _mean(runs, "F_T"), str(len(runs)), link]
    return [f"`{method}`", f"`{stream}`", network, memory, lr, epochs, *numbers]


def _mean(runs: list[PackedRun], metric: str) -> str:
    values = [float(run.metrics[metric]) for run in runs if run.metrics.get(metric) is not None]
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread}"


def _results_text(name: str, rows: list[list[str]]) -> str:
    if not rows:
        return _without_results(name)
    settings = ["method", "stream", "network", "memory", "lr", "epochs"]
    header = [*settings, "A_T %", "F_T", "seeds", "file"]
    about = (
        "Means over seeds, ± the standard deviation. Only rows with the same stream, network, "
        "memory and file can be compared; a single seed may be off by several points. "
        "[Results](../appendix/results.md) has the commands and what limits each study."
    )
    return f"{about}\n\n{table(header, sorted(rows, key=lambda row: (row[1:6], row[0])))}"


def _without_results(name: str) -> str:
    """How to measure it."""
    other = "er" if compose(name).method.uses_memory else "fine-tune"
    return (
        f"No runs of `{name}` on a benchmark stream are stored. This command compares it with "
        f"`{other}` on scikit-learn's digits, in a minute or two:\n\n"
        f"```sh\nevenstream compare {other} {name} --stream c-digits --seeds 5 --out digits\n```"
    )
