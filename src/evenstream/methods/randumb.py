"""RanDumb: linear discriminant analysis on random Fourier features, without a network."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Factor, Positive, Share
from evenstream.methods.base import register
from evenstream.methods.parts.summing import Summing
from evenstream.policies.closed_forms import ClosedForm, FourierDiscriminant
from evenstream.policies.closed_forms.random_features import Scaling


@register("randumb")
@dataclass
class RanDumb(Summing):
    """Approximate a Gaussian kernel by random features; keep class means and a covariance.

    Published for raw pixels with 25,000 random features and mirrored images.
    """

    citation = "Prabhu et al., RanDumb: Random Representations Outperform Online Learned Ones, 2024"

    width: Positive = 2000
    """Number of random features."""
    scaling: Scaling = "rows"
    """none: unscaled features. rows: every row at the same length. columns: every column by its
    mean and standard deviation over the first `scale_rows` rows, which are held back until then, so
    the result depends on which rows those are."""
    scale_rows: Positive = 1000
    """Number of rows from which the scale of the columns is computed (scaling=columns)."""
    gamma: Factor = 1.0
    """γ of the kernel exp(-γ·|x-y|²/d) on the scaled rows, which have d columns."""
    shrinkage: Share = 0.0
    """How far the covariance is shrunk towards its diagonal; 0 means chosen by oracle
    approximation."""

    def make_form(self) -> ClosedForm:
        """Random features with their means and covariance."""
        return FourierDiscriminant(
            self.width, self.scaling, self.scale_rows, self.gamma, self.shrinkage
        )
