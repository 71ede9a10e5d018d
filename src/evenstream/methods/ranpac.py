"""RanPAC: ridge regression from random features to the classes."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Factor, Positive
from evenstream.methods.base import register
from evenstream.methods.parts.summing import Summing
from evenstream.policies.closed_forms import ClosedForm, ProjectedRidge
from evenstream.policies.closed_forms.random_features import Scaling


@register("ranpac")
@dataclass
class RanPAC(Summing):
    """Project the features at random, apply a ReLU, and regress on one-hot labels."""

    citation = "McDonnell et al., RanPAC: Random Projections and Pre-trained Models, 2023"

    width: Positive = 2000
    """Number of random features."""
    scaling: Scaling = "none"
    """none: unscaled features. rows: every row at the same length. columns: every column by its
    mean and standard deviation over the first `scale_rows` rows, which are held back until then, so
    the result depends on which rows those are."""
    scale_rows: Positive = 1000
    """Number of rows from which the scale of the columns is computed (scaling=columns)."""
    ridge: Factor = 0.0
    """Weight of the penalty, in units of the mean sum of squares of a random feature; 0 means
    chosen by generalised cross-validation."""

    def make_form(self) -> ClosedForm:
        """The regression."""
        return ProjectedRidge(self.width, self.scaling, self.scale_rows, self.ridge)
