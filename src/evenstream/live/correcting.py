"""Corrections of a learner that is saved in a folder, while nobody follows streams with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from evenstream.checkpoint import has_checkpoint, tidy, write_checkpoint
from evenstream.core.labels import Label
from evenstream.errors import CheckpointError, InputError, some_of
from evenstream.learner.editing import Edit
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import LIVE
from evenstream.live.following import KEPT_LOGS
from evenstream.live.learner_folder import claimed, read_learner
from evenstream.run.events import EventLog, cut_back


def correct(folder: Path, change: Callable[[Learner], Edit], *, saves: bool = False) -> Edit:
    """Make a correction in a folder: one event in its log and one save.

    `saves` removes the saves before it. Killed at any moment, the folder holds the learner as it
    was or as it is then.
    """
    if not has_checkpoint(folder):
        raise CheckpointError(f"{folder} holds no learner")
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
    return edit


def known_label(learner: Learner, text: str) -> Label:
    """The label that is meant by a word of a command line."""
    found = [label for label in learner.labels if str(label) == text]
    if len(found) > 1:
        found = [label for label in found if label == text and isinstance(label, str)] or found
    if len(found) == 1:
        return found[0]
    known = some_of(list(map(str, learner.labels)), 10) or "none"
    reason = "is said of several labels" if found else "is no class"
    raise InputError(f"{text} {reason}; known: {known}")


def any_label(learner: Learner, text: str) -> Label:
    """The same, or a new label, which is a number if all others are."""
    if any(str(label) == text for label in learner.labels):
        return known_label(learner, text)
    numbers = learner.labels and all(type(label) is int for label in learner.labels)
    return int(text) if numbers and re.fullmatch(r"-?[0-9]{1,18}", text) else text
