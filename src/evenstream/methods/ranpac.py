"""RanPAC: ridge regression from random features to the classes."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Factor
from evenstream.methods.base import register
from evenstream.methods.parts.summing_random_features import SummingRandomFeatures
from evenstream.policies.closed_forms import ClosedForm, ProjectedRidge
from evenstream.policies.closed_forms.random_features import Scaling


@register("ranpac")
@dataclass
class RanPAC(SummingRandomFeatures):
    """Project the features at random, apply a ReLU, and regress on one-hot labels."""

    citation = "McDonnell et al., RanPAC: Random Projections and Pre-trained Models, 2023"

    scaling: Scaling = "none"
    ridge: Factor = 0.0
    """Weight of the penalty, in units of the mean sum of squares of a random feature; 0 means
    chosen by generalised cross-validation."""

    def make_form(self) -> ClosedForm:
        """The regression."""
        return ProjectedRidge(self.width, self.scaling, self.scale_rows, self.ridge)
