"""The folder of a learner that follows streams.

It is what `Learner.save` writes, so `Learner.load` reads it, with the place in each stream in the
same checkpoint and a log beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenstream.checkpoint import has_checkpoint, read_checkpoint
from evenstream.data.files import remove_empty
from evenstream.errors import CheckpointError, EvenstreamError, InputError
from evenstream.files import exclusive
from evenstream.learner.learner import Learner
from evenstream.learner.persistence import fingerprint, load_learner_state
from evenstream.live.tally import Tally
from evenstream.run.config import COMPARISON, CONFIG, PRETRAINING
from evenstream.run.folder import CHECKPOINTS

LIVE = "live"
"""Where in a checkpoint the tally is."""
_OWN = re.compile(r"events.*\.jsonl|metrics\.json|checkpoint-|incoming$")
"""What may be left of a process that was killed before its first save."""


def read_saved(folder: Path, *, of_run: bool = True) -> tuple[dict[str, Any], Tally]:
    """The state of the learner that was saved in a folder, and its tally, empty if it has none.

    It may be the folder of a run, or that of its checkpoints, unless it is to be written to.
    """
    place = folder if has_checkpoint(folder) else folder / CHECKPOINTS
    saved = read_checkpoint(place) if has_checkpoint(place) else {}
    if "learner" in saved and not of_run:
        raise _holds_a_run(folder)
    state: dict[str, Any] = saved.get("learner", saved)  # in a run it is a part of the checkpoint
    if state.get("kind") != "learner":
        raise CheckpointError(f"{folder} holds no learner")
    tally = state.pop(LIVE, None)
    return state, Tally() if tally is None else Tally.from_state(tally)


def read_learner(folder: Path, device: str | None = None) -> tuple[Learner, Tally]:
    """The learner that was saved in a folder, and its tally."""
    state, tally = read_saved(folder)
    return Learner.from_state(state, device=device), tally


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Work in a folder alone; one that was made for it and stayed empty is removed again."""
    for name in (CONFIG, COMPARISON, PRETRAINING):
        if (folder / name).exists():
            raise _holds_a_run(folder)
    try:
        foreign = folder.exists() and not all(_OWN.match(file.name) for file in folder.iterdir())
        if foreign and not has_checkpoint(folder):
            raise EvenstreamError(
                f"{folder} is not empty and holds no learner; choose another folder"
            )
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvenstreamError(f"cannot write to {folder}: {error}") from error
    try:
        with exclusive(folder):
            yield
    finally:
        remove_empty(made)


def _holds_a_run(folder: Path) -> EvenstreamError:
    return EvenstreamError(
        f"{folder} holds a run, which stays as it is; go on from a copy of its learner in a new "
        f"folder: evenstream learn NEW --start {folder} --from ..."
    )


def bring_to(learner: Learner, state: dict[str, Any], folder: Path) -> None:
    """Let a new learner go on from a saved state; one that has learned must be there already."""
    options = {**state["options"], "device": learner.options.device}
    same = (
        learner.text == state["method"]
        and (learner.model if isinstance(learner.model, str) else None) == state["model"]
        and fingerprint({"options": options}) == fingerprint({"options": asdict(learner.options)})
    )
    if not same:
        raise InputError(
            f"{folder} holds a learner that was made with other options; make this one with the "
            f"same, use Learner.load, or choose another folder"
        )
    if learner.network is None and not learner.step:
        load_learner_state(learner, state)
    elif learner.fingerprint() != fingerprint({**state, "options": options}):
        raise InputError(
            f"{folder} holds another state (step {state['step']}) of this learner (step "
            f"{learner.step}). If another process has gone on with it meanwhile, run the command "
            "again; in a program, pass a new learner, which goes on from there, or another folder"
        )
