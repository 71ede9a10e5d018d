"""Filters the paper's tables and figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evenstream.errors import InputError, UnknownName
from evenstream.paper.contents import Description
from evenstream.sweep.experiment import Experiment

Entry = Experiment | Description

_KINDS = ("Table", "Figure", "Section")


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Tables, figures and sections by number, as in the paper; then everything else."""

    def place(entry: Entry) -> tuple[int, int]:
        kind, _, number = entry.source.partition(" ")
        known = kind in _KINDS and number.isdigit()
        return (_KINDS.index(kind), int(number)) if known else (len(_KINDS), 0)

    return sorted(entries, key=place)


def choose(
    entries: Sequence[Entry],
    words: Sequence[str] = (),
    stream: str | None = None,
    method: str | None = None,
) -> list[Entry]:
    """The entries that match all words, the stream and the method; rejects what none has.

    Args:
        entries: what there is to choose from.
        words: beginnings of words in number, name and title: "table 2", "batch".
        stream: the stream of some cell, at any scale.
        method: likewise; without options it stands for all of them.
    """
    found = list(entries)
    for kind, name, names_of in (("stream", stream, streams), ("method", method, methods)):
        if name is not None:
            known = {each for entry in entries for each in names_of(entry)}
            if name not in known:
                raise UnknownName(f"{kind} of the paper", name, known)
            found = [entry for entry in found if name in names_of(entry)]
    found = [entry for entry in found if all(_has(entry, word) for word in words)]
    if entries and not found:
        raise InputError(
            "no table or figure has all of that; `evenstream paper list` without filters shows "
            "what there is"
        )
    return found


def streams(entry: Entry) -> set[str]:
    """The streams used in the paper's experiments, including those of smaller scales."""
    return set(entry.streams) if isinstance(entry, Description) else _values(entry, "stream")


def methods(entry: Entry) -> set[str]:
    """The methods that an experiment runs, both as written and without options."""
    written = set() if isinstance(entry, Description) else _values(entry, "method")
    return written | {re.split("[:@]", name)[0] for name in written}


def _values(experiment: Experiment, key: str) -> set[str]:
    scales = experiment.scale_names
    return {str(cell[key]) for scale in scales for cell in experiment.cells(scale)}


def _has(entry: Entry, word: str) -> bool:
    """Whether some word begins like that; numbers must match as a whole."""
    text = f"{entry.source} {entry.name} {entry.title}"
    return re.search(rf"(?<!\w){re.escape(word)}(?!\d)", text, re.IGNORECASE) is not None
