r"""Tables as LaTeX: a fragment to \input into a document that loads booktabs."""

from __future__ import annotations

from evenstream.report.tables.layout import Table, tables
from evenstream.report.tables.outcome import Outcome
from evenstream.report.tables.verdicts import RULE

_SIGNS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "±": r"$\pm$", "−": r"$-$", "–": "--", "×": r"$\times$", "·": r"$\cdot$", "≈": r"$\approx$",
    "▲": r"$\uparrow$", "▼": r"$\downarrow$", "◆": r"$\neq$", "†": r"$\dagger$", "τ": r"$\tau$",
    "…": r"\dots{}", "’": "'",
}  # fmt: skip


def escape(text: object) -> str:
    """Text that LaTeX sets as it is; a sign that it may not have becomes a question mark."""
    found = (_SIGNS.get(sign, sign if sign.isascii() else "?") for sign in str(text))
    return " ".join("".join(found).split())


def outcome_tex(outcome: Outcome) -> str:
    """The fragment of one experiment."""
    head = rf"% {' '.join(outcome.experiment.name.split())}: needs \usepackage{{booktabs}}"
    found = [_table(outcome, number, table) for number, table in enumerate(tables(outcome))]
    return "\n".join([head, *found])


def _table(outcome: Outcome, number: int, table: Table) -> str:
    kinds = "".join("l" if place in table.left else "r" for place in range(len(table.columns)))
    rule = f" {RULE}" if "verdict" in table.columns else ""
    title = f"{outcome.experiment.title}. {table.title}, at scale {table.scale}."
    body = [rf"{' & '.join(map(escape, row))} \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}[htb]",
            r"\centering\footnotesize",
            rf"\caption{{{escape(f'{title} {table.caption}{rule}')}}}",
            rf"\label{{tab:{outcome.experiment.name}-{number + 1}}}",
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            rf"{' & '.join(map(escape, table.columns))} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
