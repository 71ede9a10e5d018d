"""All or nothing: a rejected step leaves no trace in the learner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from evenstream.core.state import LearnerState
from evenstream.interruption import SignalsHeld


@contextmanager
def all_or_nothing(learner: LearnerState) -> Iterator[None]:
    """Run a block with the learner's own randomness; restore every piece if it fails.

    Small state (counters, generators, BatchNorm buffers) is recorded beforehand; large state
    (parameters, memory) is recorded where it is about to change, so a successful step pays next to
    nothing. If nothing can reject a step once the weights are updated, they are not recorded. No
    signal handler runs in the meantime: an interrupt finds the block done, or undone where it
    called `let_through`.
    """
    with SignalsHeld():
        learner.before_change()
        pieces = list(learner.pieces.values())
        marks = [piece.mark() for piece in pieces]
        decided = learner.decided
        try:
            with learner.randomness.owned_global(), torch.enable_grad():
                yield
        except BaseException:
            for piece, mark in zip(pieces, marks, strict=True):
                piece.restore(mark)
            if not learner.built:
                learner.undecide(decided)
            raise
        for piece in pieces:
            piece.settle()
        learner.after_change()
