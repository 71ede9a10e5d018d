"""What a learner does when nothing is said: ER-LAS, and closed forms beside it on flat inputs."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.core.state import LearnerState
from evenstream.methods.base import register
from evenstream.methods.er import Replay
from evenstream.policies.criteria import CrossEntropy, LogitAdjustedSoftmax
from evenstream.policies.retrieval import ExceptHeldOut, Retrieval
from evenstream.policies.rules import Contest, InferenceRule


@register("auto")
@dataclass
class Auto(Replay):
    """`er-las`; on flat inputs `slda` and `ranpac` learn beside it, and the best of them is asked.

    The stream itself decides which is best. It is `er-las@contest`, but that on flat inputs a fifth
    of the memory is not replayed: there it shows what the network forgets.
    """

    citation = "the paper; Hayes and Kanan 2020; McDonnell et al. 2023"
    cost = "F(b+m) + G(b+m), and two closed forms of the inputs"
    why_not_las = "its cross-entropy is adjusted already"

    def make_retrieval(self) -> Retrieval:
        """Uniform, but for rows that are held out."""
        return ExceptHeldOut()

    def on_setup(self, learner: LearnerState) -> None:
        """Where the network is asked in any case, all rows are replayed."""
        super().on_setup(learner)
        if isinstance(self.retrieval, ExceptHeldOut):
            self.retrieval.holds_out = len(learner.kind_of_inputs.shape) == 1

    def make_criterion(self) -> CrossEntropy:
        """Logit Adjusted Softmax."""
        return LogitAdjustedSoftmax()

    def make_rule(self) -> InferenceRule:
        """Whoever was right more often."""
        return Contest()
