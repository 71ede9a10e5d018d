"""Streaming linear discriminant analysis: class means and one covariance for all classes."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.bounds import Share
from evenstream.methods.base import register
from evenstream.methods.parts.summing import Summing
from evenstream.policies.closed_forms import ClosedForm, Discriminant
from evenstream.policies.closed_forms.discriminant import Priors, Target


@register("slda")
@dataclass
class SLDA(Summing):
    """Keep the mean of each class's features and the covariance that they share."""

    citation = "Hayes and Kanan, Lifelong Machine Learning with Deep Streaming LDA, 2020"

    shrinkage: Share = 0.0
    """How far the covariance is shrunk towards its target; 0 means chosen by oracle
    approximation."""
    target: Target = "diagonal"
    """diagonal: its own variances, so that the scale of columns does not matter. identity: the mean
    variance for all, as in scikit-learn."""
    priors: Priors = "uniform"
    """Class frequencies assumed when predicting: equal, or as counted in the stream."""

    def make_form(self) -> ClosedForm:
        """Means and a covariance."""
        return Discriminant(self.shrinkage, self.target, self.priors)
