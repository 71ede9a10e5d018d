"""LwF: preserve the softened outputs for classes that were known before."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.distillation import DistillationForm, Temperature, distillation
from evenstream.methods.parts.taught_replay import FeaturesAndLogits, TaughtReplay


@register("lwf")
@dataclass
class LwF(TaughtReplay):
    """Learning without Forgetting; the original, which has no memory, is `--memory 0`."""

    citation = "Li and Hoiem, Learning without Forgetting, 2016"
    logits_follow_criterion = False

    weight: Factor = 0.5
    """Weight of the distillation (α)."""
    temperature: Temperature = 2.0
    """Temperature of the distillation."""
    form: DistillationForm = "ce"
    """Cross-entropy or Kullback-Leibler divergence: different values, the same gradient."""
    scaled: bool = False
    """Multiply by the temperature squared, as some public code does."""

    def distance(self, step: Step, new: FeaturesAndLogits, old: FeaturesAndLogits) -> Tensor:
        """Distillation on the classes that the teacher knows."""
        (_, logits), (_, targets) = new, old
        return distillation(logits, targets, self.temperature, form=self.form, scaled=self.scaled)
