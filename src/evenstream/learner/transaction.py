"""All or nothing: a step that is refused leaves no trace in the learner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from evenstream.core.state import LearnerState
from evenstream.interruption import SignalsHeld


@contextmanager
def all_or_nothing(learner: LearnerState) -> Iterator[None]:
    """Run a block with the learner's own randomness; put every piece back if it fails.

    What is small (counters, generators, BatchNorm buffers) is noted before; what is large
    (parameters, memory) is noted where it is about to change, so a step that succeeds pays next
    to nothing. Where nothing can refuse a step once the weights are updated, they are not noted.
    No signal's handler runs meanwhile: an interrupt finds the block done, or undone where it
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
