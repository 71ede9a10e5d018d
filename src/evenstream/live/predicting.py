"""Predictions of a saved learner as CSV: label, probability, and one column for each class."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import TextIOBase
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from evenstream.data.image_files import ImageFiles
from evenstream.errors import InputError
from evenstream.learner.learner import Learner
from evenstream.live.sources import ArraySource, Source


@dataclass
class Score:
    """Number of predictions, and how many of those with a label were right."""

    rows: int = 0
    """Rows answered."""
    labelled: int = 0
    """Rows with a label, except rejected ones."""
    right: int = 0
    rejected: int = 0
    """Rows that look like no known class."""


def check_predicting(learner: Learner, top: int | None, reject: float | None) -> float | None:
    """Reject wishes that cannot be fulfilled; returns the least familiarity of known classes."""
    if not learner.labels:
        raise InputError("the learner has not learned anything yet")
    if top is not None and top < 1:
        raise InputError(f"top must be 1 or more, got {top}")
    return None if reject is None else learner.familiarity_threshold(reject)


def write_predictions(
    learner: Learner,
    source: Source,
    out: TextIO | TextIOBase,
    top: int | None = None,
    *,
    reject: float | None = None,
    quote_formulas: bool = False,
    tell_bad: bool = False,
) -> Score:
    """Write a line for each row of the source, a few rows at a time.

    Columns are the file's name (for images), the most likely label and its probability, then the
    probability of each label; with `top`, that many pairs of label and probability instead.
    With `reject`, the familiarity of each row comes first, and the label of a row that looks like
    no known class is empty. With `quote_formulas`, names and labels that a spreadsheet would read
    as formulas get a leading quotation mark. With `tell_bad`, an unusable row has a line with empty
    cells.
    """
    shown = _quoted if quote_formulas else _as_it_is
    threshold = check_predicting(learner, top, reject)
    files = source.x if isinstance(source, ArraySource) else None
    files = files if isinstance(files, ImageFiles) else None
    writer = csv.writer(out, lineterminator="\n")
    pairs = min(top or 1, len(learner.labels))
    head = [
        *(["file"] if files is not None else []),
        *(["familiarity"] if reject is not None else []),
        *(f"{name}{number}" for number in ["", *range(2, pairs + 1)] for name in _PAIR),
        *([] if top else (f"p({label})" for label in learner.labels)),
    ]
    score, begun, place = Score(), False, 0
    for x, labels in filter(None, source):
        chances = learner.predict_proba(x) if len(x) else np.empty((0, len(learner.labels)))
        if not begun:  # only once the first rows are known to be of the right kind
            writer.writerow(head)
        begun = True
        familiar = None if threshold is None else learner.familiarity(x) if len(x) else np.empty(0)
        answers = zip(chances, labels, range(len(x)), strict=True)
        for kept in [True] * len(labels) if source.kept is None else source.kept:
            name = [] if files is None else [str(files.path(place).relative_to(files.root))]
            place += 1
            if not kept:
                if tell_bad:
                    writer.writerow([*map(shown, name), *[""] * (len(head) - len(name))])
                continue
            row, label, index = next(answers)
            best = np.argsort(-row, kind="stable")[:pairs]
            told, known = _cells(learner, row, best), True
            if familiar is not None and threshold is not None:
                known = bool(familiar[index] >= threshold)
                told = [_text(familiar[index]), told[0] if known else "", *told[1:]]
            cells = map(shown, [*name, *told])
            writer.writerow([*cells, *([] if top else map(_text, row))])
            score.rows += 1
            score.rejected += not known
            score.labelled += known and label is not None
            score.right += known and label is not None and label == learner.labels[best[0]]
        out.flush()
    if not begun:
        writer.writerow(head)
    return score


_PAIR = ("label", "probability")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _quoted(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _as_it_is(cell: Any) -> Any:
    return cell


def _cells(learner: Learner, row: NDArray[Any], best: NDArray[Any]) -> list[Any]:
    return [cell for index in best for cell in (learner.labels[index], _text(row[index]))]


def _text(chance: float) -> str:
    return f"{chance:.6g}"
