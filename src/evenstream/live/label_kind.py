"""Converts labels from files to the kind that a learner has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenstream.core.labels import Label as LearnerLabel
from evenstream.data.dataset import Label
from evenstream.numerals import read_number


def label_converter(known: Sequence[LearnerLabel]) -> Callable[[Label], Label]:
    """Converts labels to the learner's kind, so that text "3" and the integer 3 are one class.

    The first label decides for a learner without any; one with several kinds takes all unchanged.
    """
    kinds = {type(label) for label in known}
    kind = kinds.pop() if len(kinds) == 1 else None

    def convert(label: Label) -> Label:
        nonlocal kind
        if not known:
            kind = kind or type(label)
        if kind is None or type(label) is kind:
            return label
        if kind is str:
            return str(label)
        if kind is int and isinstance(label, str):
            try:
                return read_number(label, int)
            except ValueError:
                pass
        raise ValueError(
            f"label {label!r} is not of type {kind.__name__}, as the learner's labels are"
        )

    return convert
