"""The folder of a learner that follows streams.

It is what `Learner.save` writes, so `Learner.load` reads it; the position in each stream is in the
same checkpoint, and there is a log beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenstream.checkpoint import fingerprint, has_checkpoint, restore
from evenstream.data.checked_files import remove_empty
from evenstream.entries import entry
from evenstream.errors import CheckpointError, EvenstreamError, InputError
from evenstream.files import exclusive, write_atomically
from evenstream.learner.front import front_identity
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import (
    DRIFT,
    LIVE,
    learner_fingerprint,
    load_learner_state,
    of_this_version,
)
from evenstream.learner.shown import facts
from evenstream.live.tally import Tally
from evenstream.run.config import COMPARISON, CONFIG, PRETRAINING
from evenstream.run.folder import CHECKPOINTS
from evenstream.run.metrics_file import METRICS

_OWN = re.compile(r"events.*\.jsonl|metrics\.json|checkpoint-|incoming$")
"""Files that a process killed before its first save may leave behind."""


def read_learner(folder: Path, device: str | None = None) -> tuple[Learner, Tally]:
    """The learner saved in a folder, and its tally, which may be empty.

    It may be the folder of a run, or that of its checkpoints.
    """
    place = folder if has_checkpoint(folder) else folder / CHECKPOINTS
    if not has_checkpoint(place):
        raise no_learner(folder)

    def build(saved: dict[str, Any]) -> tuple[Learner, Tally]:
        state = saved.get("learner", saved)  # in a run it is part of the checkpoint
        return Learner.from_state(state, device=device), _tally(state)

    return restore(place, build)


def no_learner(folder: Path) -> CheckpointError:
    """The error for a folder without a save."""
    why = "holds no learner" if folder.exists() else "does not exist"
    return CheckpointError(f"{folder} {why}; `evenstream learn DIR --from DATA` makes a learner")


def bring_to_saved(learner: Learner, folder: Path) -> Tally:
    """Continue a learner from the save in the folder that will be written to; returns its tally."""

    def build(saved: dict[str, Any]) -> Tally:
        if "learner" in saved:
            raise _holds_a_run(folder)
        tally = _tally(saved)
        _bring_to(learner, {name: saved[name] for name in saved if name != LIVE}, folder)
        return tally

    return restore(folder, build)


def _tally(state: dict[str, Any]) -> Tally:
    with entry(LIVE):
        tally = state.get(LIVE)
        return Tally() if tally is None else Tally.from_state(tally)


def check_folder(folder: Path) -> None:
    """Reject a folder that holds anything but a learner."""
    for name in (CONFIG, COMPARISON, PRETRAINING):
        if (folder / name).exists():
            raise _holds_a_run(folder)
    try:
        foreign = folder.exists() and not all(_OWN.match(file.name) for file in folder.iterdir())
    except OSError as error:
        raise EvenstreamError(f"cannot write to {folder}: {error}") from error
    if foreign and not has_checkpoint(folder):
        raise EvenstreamError(f"{folder} is not empty and holds no learner; choose another folder")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Work in a folder exclusively; a folder created for this that stays empty is removed."""
    check_folder(folder)
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvenstreamError(f"cannot write to {folder}: {error}") from error
    try:
        with exclusive(folder):
            yield
    finally:
        remove_empty(made)


def write_metrics(folder: Path, learner: Learner, tally: Tally) -> None:
    """Write `metrics.json`."""
    write_atomically(folder / METRICS, json.dumps(live_metrics(learner, tally), indent=1))


def live_metrics(learner: Learner, tally: Tally) -> dict[str, Any]:
    """What `metrics.json` says of a learner and the streams that it has followed."""
    return {
        "format": 1,
        **facts(learner),
        "batches": tally.batches,
        "samples": tally.samples,
        "refused_batches": tally.refused,
        "prequential_accuracy": tally.accuracy.overall,
        "recent_accuracy": tally.accuracy.recent,
        "train_seconds": tally.seconds,
        "streams": tally.state()["streams"],
    }


def _holds_a_run(folder: Path) -> EvenstreamError:
    return EvenstreamError(
        f"{folder} holds a run, which is never modified; continue from a copy of its learner in a "
        f"new folder: evenstream learn NEW --start {folder} --from ..."
    )


def _bring_to(learner: Learner, state: dict[str, Any], folder: Path) -> None:
    """Load a saved state into a new learner; one that has learned must already be at that state."""
    state = of_this_version(state)
    with entry("options"):
        options = {**state["options"], "device": learner.options.device}
        decided = learner.decided
        learner.adopt(state["model"], options)
        model = learner.model if isinstance(learner.model, str) else None
        own = {"options": asdict(learner.options), "method": learner.text, "model": model}
        saved = {"options": options, "method": state["method"], "model": state["model"]}
        if learner.front is not None or "front" in state:
            own["front"] = None if learner.front is None else learner.front.identity
            saved["front"] = front_identity(state["front"]) if "front" in state else None
        same = fingerprint(own) == fingerprint(saved)
    if not same:
        learner.undecide(decided)
        raise InputError(
            f"{folder} holds a learner that was made with other options; make this one with the "
            f"same, use Learner.load, or choose another folder"
        )
    if not (learner.built or learner.step):
        load_learner_state(learner, state)
    elif _fingerprint(learner, state) != learner_fingerprint({**state, "options": options}):
        if not learner.unwritten and isinstance(learner.model, str):
            Learner.from_state(state, device=learner.options.device)  # it may be damaged
        raise InputError(
            f"{folder} holds another state of this learner (step {state['progress']['step']}, not "
            f"{learner.step}). If another process has continued it in the meantime, run the "
            "command again; in a program, pass a new learner, which continues from there, or "
            "another folder"
        )


def _fingerprint(learner: Learner, saved: dict[str, Any]) -> str:
    """A learner's identity, which does not depend on whether it watches for drift."""
    own = learner.state()
    return learner_fingerprint({n: v for n, v in own.items() if n != DRIFT or n in saved})
