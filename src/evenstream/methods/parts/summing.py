"""Base of closed-form methods: rows become sums, and nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenstream.core.heads import Head
from evenstream.core.outputs import plain_outputs
from evenstream.core.part import Correction
from evenstream.core.rows import Rows
from evenstream.core.state import LearnerState
from evenstream.core.step import Step
from evenstream.methods.base import Method
from evenstream.policies.closed_forms import ClosedForm
from evenstream.policies.rules import InferenceRule, Solved


@dataclass
class Summing(Method):
    """Adds the features of each arriving row to a closed form, once, with a fixed network.

    The network is never trained, so it is a pretrained one, or none (`identity`).
    """

    cost = "F(b), and no backward"
    uses_memory = False
    weighs_rows = True
    why_not_las = (
        "it trains no softmax: classes are compared by sums over their rows, which do not depend "
        "on when they arrived"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.form = self.make_form()
        self.inner = [self.form]

    def make_form(self) -> ClosedForm:
        """The closed form. The one thing that such a method must implement."""
        raise NotImplementedError

    def make_rule(self) -> InferenceRule:
        """The closed form predicts."""
        return Solved(self.form)

    def why_not(self, head: Head, rule: InferenceRule) -> str | None:
        """Other rules use a head that is not trained."""
        if isinstance(rule, Solved):
            return None
        return f"{self.name} does not train the head that the rule {rule.name} uses; leave it out"

    def on_setup(self, learner: LearnerState) -> None:
        """Create the sums."""
        self.form.begin(learner, learner.network.head.in_features)

    def training_rows(self, step: Step) -> Sequence[Rows]:
        """The incoming batch only."""
        return [step.incoming]

    def loss(self, step: Step) -> None:
        """There is no loss; features are computed once, for the prediction and the sums."""
        step.plain_outputs()

    def on_correction(self, learner: LearnerState, rows: Correction) -> None:
        """Remove their features from the sums."""
        self.form.correct(plain_outputs(learner, rows.raw)[0], rows)

    def after_step(self, step: Step) -> None:
        """Add the rows after they have been predicted, and only once."""
        if not step.again:
            incoming = step.incoming
            self.form.take(step.plain_outputs().features, incoming.y, incoming.weights)
