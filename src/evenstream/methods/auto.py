"""The default method: ER-LAS, joined by closed forms on flat inputs."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
from evenstream.policies.rules import Contest, InferenceRule


@register("auto")
@dataclass
class Auto(Replay):
    """`er-las`; on flat inputs `slda` and `ranpac` learn alongside it, and the best one predicts.

    The stream itself decides which is best. `er-las@contest` is another name for it.
    """

    citation = "the paper; Hayes and Kanan 2020; McDonnell et al. 2023"
    cost = "F(b+m) + G(b+m), and two closed forms of the inputs"
    why_not_las = "its cross-entropy is adjusted already"

    def make_criterion(self) -> CrossEntropy:
        """Logit Adjusted Softmax."""
        return LogitAdjustedSoftmax()

    def make_rule(self) -> InferenceRule:
        """Whichever was right most often."""
        return Contest()
