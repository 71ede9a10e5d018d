"""RanDumb: linear discriminant analysis on random Fourier features, without a network."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Factor, Share
from evenstream.methods.base import register
from evenstream.methods.parts.summing_random_features import SummingRandomFeatures
from evenstream.policies.closed_forms import ClosedForm, FourierDiscriminant


@register("randumb")
@dataclass
class RanDumb(SummingRandomFeatures):
    """Approximate a Gaussian kernel by random features; keep class means and a covariance.

    Published for raw pixels with 25,000 random features and mirrored images.
    """

    citation = "Prabhu et al., RanDumb: Random Representations Outperform Online Learned Ones, 2024"

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
