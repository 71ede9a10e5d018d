"""Corrects a learner saved in a folder, while it is not following streams."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from evenstream.checkpoint import has_checkpoint, tidy, write_checkpoint
from evenstream.core.labels import Label
from evenstream.errors import InputError, some_of
from evenstream.learner.editing import Edit
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import LIVE
from evenstream.live.following import KEPT_LOGS
from evenstream.live.learner_folder import claimed, no_learner, read_learner, write_metrics
from evenstream.run.events import EventLog, cut_back


def correct(folder: Path, change: Callable[[Learner], Edit], *, saves: bool = False) -> Edit:
    """Make a correction in a folder, with one event in its log and one save.

    `saves` removes earlier saves. If the process is killed at any moment, the folder holds the
    learner either as it was or with the correction.
    """
    if not has_checkpoint(folder):
        raise no_learner(folder)
    with claimed(folder):
        learner, tally = read_learner(folder)
        tidy(folder)
        cut_back(folder, tally.batches, 0, learner.progress.edits)
        edit = change(learner)
        log = EventLog(folder, keep=KEPT_LOGS)
        try:
            log.write({"step": tally.batches, **learner.unlogged.popleft()})
            log.flush(sync=True)
        finally:
            log.close()
        beside = {LIVE: tally.state()} if tally.batches else {}
        write_checkpoint(folder, learner.step, {**learner.state(), **beside}, alone=saves)
        if tally.batches:
            write_metrics(folder, learner, tally)
    return edit


def known_label(learner: Learner, text: str) -> Label:
    """The label that a word on the command line refers to."""
    found = [label for label in learner.labels if str(label) == text]
    if len(found) > 1:
        found = [label for label in found if label == text and isinstance(label, str)] or found
    if len(found) == 1:
        return found[0]
    known = some_of(list(map(str, learner.labels)), 10) or "none"
    reason = "matches several labels" if found else "is no class"
    raise InputError(f"{text} {reason}; known: {known}")


def any_label(learner: Learner, text: str) -> Label:
    """The same, or a new label, which becomes a number if all others are."""
    if any(str(label) == text for label in learner.labels):
        return known_label(learner, text)
    numbers = learner.labels and all(type(label) is int for label in learner.labels)
    return int(text) if numbers and re.fullmatch(r"-?[0-9]{1,18}", text) else text
