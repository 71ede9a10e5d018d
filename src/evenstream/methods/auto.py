"""The default method: ER-LAS, joined by closed forms on flat inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from evenstream.core.edits import WHOLE, by_name
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
from evenstream.policies.retrieval import HELD_OUT, ExceptHeldOut, Retrieval
from evenstream.policies.rules import Contest, InferenceRule

ONE_IN = 10
"""One row in this many is held out."""


@register("auto")
@dataclass
class Auto(Replay):
    """`er-las`; on flat inputs `slda` and `ranpac` learn alongside it, and the best one predicts.

    The stream itself decides which is best. It is `er-las@contest`, except that on flat inputs one
    row in ten is stored without being trained on: these rows show how good the network is.
    """

    stored = by_name({HELD_OUT: WHOLE})
    citation = "the paper; Hayes and Kanan 2020; McDonnell et al. 2023"
    cost = "F(b+m) + G(b+m), and two closed forms of the inputs"
    why_not_las = "its cross-entropy is adjusted already"

    def make_retrieval(self) -> Retrieval:
        """Uniform, but for rows that are held out."""
        return ExceptHeldOut()

    def on_setup(self, learner: LearnerState) -> None:
        """Nothing is held out where the network predicts in any case."""
        super().on_setup(learner)
        self._holds_out = learner.memory.capacity > 0 and len(learner.kind_of_inputs.shape) == 1

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """As ER, without the rows held out; the first ones of a class never are."""
        if not self._holds_out:
            return super().training_rows(step)
        y = step.incoming.y
        turn = (step.number + torch.arange(len(y), device=y.device)) % ONE_IN == 0
        held = turn & (y < step.known)
        step.remember(**{HELD_OUT: held})
        return [step.incoming.take((~held).nonzero().squeeze(1)), step.retrieve()]

    def make_criterion(self) -> CrossEntropy:
        """Logit Adjusted Softmax."""
        return LogitAdjustedSoftmax()

    def make_rule(self) -> InferenceRule:
        """Whichever contestant was right most often."""
        return Contest()
