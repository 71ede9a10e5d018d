"""The inference rule that uses a closed form."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from evenstream.core.outputs import InferenceContext, Outputs
from evenstream.policies.closed_forms import ClosedForm
from evenstream.policies.rules.rule import InferenceRule


class Solved(InferenceRule):
    """Log-probabilities by a closed form over the network's features."""

    reads_memory = False

    def __init__(self, form: ClosedForm) -> None:
        self.__post_init__()
        self.form = form

    def prepare(self, context: InferenceContext) -> Any:
        """The solution for all rows so far."""
        return self.form.solution()

    def prepare_for_step(self, context: InferenceContext) -> Any:
        """Nothing: the form has its own shortcut where a solution is expensive."""
        return None

    @property
    def weighs_classes(self) -> bool:
        """As decided by the form."""
        return self.form.why_no_priors is not None

    def why_no_priors(self, not_by_logits: str | None) -> str | None:
        """The form's reason; the network's logits are not asked."""
        return self.form.why_no_priors

    familiar_every = 1

    def familiarity(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The form's own measure, if it has more than probabilities."""
        if self.form.tells_familiar:
            return self.form.familiarity(outputs.features)
        return super().familiarity(outputs, prepared)

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """The form's."""
        return self.form.familiarity_scale

    def familiarity_for_step(self, outputs: Outputs, prepared: Any) -> Tensor | None:
        """The same, at a cost acceptable in steps."""
        if self.form.tells_familiar:
            return self.form.familiarity_for_step(outputs.features)
        return super().familiarity_for_step(outputs, prepared)

    def before_export(self) -> None:
        """Solve before tracing."""
        self.form.drop_rows()

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """The form's scores for the features."""
        if prepared is None:
            return self.form.guess_for_step(outputs.features, outputs.logits.shape[1])
        return self.form.log_probabilities(outputs.features, prepared, outputs.logits.shape[1])
