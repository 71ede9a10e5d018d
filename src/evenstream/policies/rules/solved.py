"""The inference rule that asks a closed form."""

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
        """Nothing: the form has its own way where a solution is dear."""
        return None

    @property
    def weighs_classes(self) -> bool:
        """As the form does."""
        return self.form.weighs_classes

    familiar_every = 1

    def familiarity(self, outputs: Outputs, prepared: Any) -> Tensor:
        """What the form makes of it, if it has more than probabilities."""
        if self.form.tells_familiar:
            return self.form.familiarity(outputs.features)
        return super().familiarity(outputs, prepared)

    @property
    def familiarity_scale(self) -> tuple[float, float]:
        """That of the form."""
        return self.form.familiarity_scale

    def familiarity_for_step(self, outputs: Outputs, prepared: Any) -> Tensor | None:
        """The same, as cheap as steps must be."""
        if self.form.tells_familiar:
            return self.form.familiarity_for_step(outputs.features)
        return super().familiarity_for_step(outputs, prepared)

    def before_export(self) -> None:
        """The solution is made."""
        self.form.drop_rows()

    def scores(self, outputs: Outputs, prepared: Any) -> Tensor:
        """What the form makes of the features."""
        if prepared is None:
            return self.form.guess_for_step(outputs.features, outputs.logits.shape[1])
        return self.form.log_probabilities(outputs.features, prepared, outputs.logits.shape[1])
