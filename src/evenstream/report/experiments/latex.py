r"""Tables as LaTeX: a fragment to \input into a document that loads a few usual packages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from evenstream.report.experiments.layout import printed_table, tables
from evenstream.report.experiments.outcome import Outcome
from evenstream.report.experiments.verdicts import RULE, SIGNS
from evenstream.report.table import Table

_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "×": r"$\times$", "·": r"$\cdot$", "≈": r"$\approx$",
    "○": r"$\circ$", "▲": r"$\uparrow$", "▼": r"$\downarrow$", "◆": r"$\neq$", "†": r"$\dagger$",
    "τ": r"$\tau$", "…": r"\dots{}", "’": "'",
}  # fmt: skip


def escape(text: object) -> str:
    """Text that LaTeX sets as it is; a sign that it may not have becomes a question mark."""
    found = (_SIGNS.get(sign, sign if sign.isascii() else "?") for sign in str(text))
    return " ".join("".join(found).split())


def outcome_tex(outcome: Outcome) -> str:
    """The fragment of one experiment."""
    printed = printed_table(outcome)
    every = [*tables(outcome), *([] if printed is None else [printed])]
    return tables_tex(outcome.experiment.name, outcome.experiment.title, every)


def tables_tex(name: str, title: str, every: Sequence[Table]) -> str:
    """The fragment of some tables about one thing."""
    parts = [rf"% {name}: needs \usepackage{{array, booktabs, longtable}}"]
    compared = False
    for number, table in enumerate(every, 1):
        caption = f"{title}. {table.title}"
        caption += f", at scale {table.scale}." if table.scale else "."
        lines = [
            rf"\caption{{{escape(f'{caption} {table.caption} {table.made}')}}}",
            rf"\label{{tab:{name}-{number}}}",
        ]
        form = _grid if table.kind == "grid" else _long
        parts += [*form(table, lines), ""]
        compared = compared or "verdict" in table.columns
    if compared:
        parts += [rf"{{\footnotesize\noindent {escape(RULE)}\par}}", ""]
    return "\n".join(parts)


def _grid(table: Table, caption: list[str]) -> list[str]:
    """Columns that do not fit beside each other go below, with the rows named again.

    It stays where it is: floats among long tables make pages that run over.
    """
    return [
        rf"\begin{{center}}\begin{{minipage}}{{\linewidth}}\centering{_SMALL}",
        r"\makeatletter\def\@captype{table}\makeatother",
        *caption,
        *(line for part in _parts(table) for line in _tabular(part)),
        r"\end{minipage}\end{center}",
    ]


def _tabular(table: Table) -> list[str]:
    return [
        r"\par\medskip",
        rf"\begin{{tabular}}{{{_kinds(table, _DIGITS)}}}",
        r"\toprule",
        _line(table.columns),
        r"\midrule",
        *map(_line, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _long(table: Table, caption: list[str]) -> list[str]:
    """A table that may span pages."""
    table = _brief(table)
    heads = [r"\toprule", _line(table.columns), r"\midrule"]
    return [
        rf"\begingroup{_SMALL}",
        rf"\begin{{longtable}}{{{_kinds(table, _LETTERS)}}}",
        *caption,
        r"\\",
        *heads,
        r"\endfirsthead",
        *heads,
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *map(_line, table.rows),
        r"\end{longtable}",
        r"\endgroup",
    ]


def _line(cells: Sequence[str]) -> str:
    return rf"{' & '.join(map(escape, cells))} \\"


# ---- what fits on a page -------------------------------------------------------------------------

_SMALL = r"\scriptsize\setlength{\tabcolsep}{4pt}"
_DIGITS, _LETTERS, _BETWEEN = 95, 83, 2
"""Signs of that size that fit into a line of the narrowest usual page, 345 pt, if most are digits
or letters, and how many the space between two columns takes away."""


def _parts(table: Table) -> list[Table]:
    """A table cut into as few as fit, about equally wide; each begins with what names the rows."""
    widths = [width + _BETWEEN for width in _widths(table)]
    heads = [place for place, column in enumerate(table.heads) if column.head]
    columns = [place for place, column in enumerate(table.heads) if not column.head]
    room = _DIGITS - sum(widths[place] for place in heads)
    fit = max(1, room // max(widths[place] for place in columns))
    parts = math.ceil(len(columns) / fit)
    each = math.ceil(len(columns) / parts)
    starts = range(0, len(columns), each)
    return [table.taken([*heads, *columns[start : start + each]]) for start in starts]


def _brief(table: Table) -> Table:
    """Without some columns, and with verdicts as signs, which the rule explains."""
    found = table.taken([place for place, column in enumerate(table.heads) if column.printed])
    if "verdict" not in found.columns:
        return found
    verdict = found.columns.index("verdict")
    rows = [
        tuple(_sign(text) if place == verdict else text for place, text in enumerate(row))
        for row in found.rows
    ]
    return replace(found, rows=tuple(rows))


def _sign(text: str) -> str:
    for verdict, sign in SIGNS.items():
        text = text.replace(f"{sign} {verdict}", sign)
    return text


def _kinds(table: Table, line: int) -> str:
    """How LaTeX sets each column: those that are too wide for the page break their lines."""
    widths = _widths(table)
    wanted = list(widths)
    while sum(widths) + _BETWEEN * len(widths) > line and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return "".join(
        ("l" if column.left else "r")
        if width == full
        else rf">{{\raggedright\arraybackslash}}p{{{width / line:.3f}\linewidth}}"
        for column, width, full in zip(table.heads, widths, wanted, strict=True)
    )


def _widths(table: Table) -> list[int]:
    """The longest text of each column."""
    return [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
