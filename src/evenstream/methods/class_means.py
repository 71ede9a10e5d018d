"""Streaming class means: an input belongs to the class with the nearest mean."""

from __future__ import annotations

from dataclasses import dataclass

from evenstream.methods.base import register
from evenstream.methods.parts.summing import Summing
from evenstream.policies.closed_forms import ClosedForm, NearestMean
from evenstream.policies.closed_forms.nearest_mean import Distance


@register("class-means")
@dataclass
class ClassMeans(Summing):
    """Keep the mean of each class's features, and predict the class with the nearest one."""

    citation = "Mensink et al., Distance-Based Image Classification, 2013"

    distance: Distance = "scaled"
    """scaled: each column in units of its standard deviation within classes. euclidean: unscaled
    columns. cosine: rows and means of length one."""

    def make_form(self) -> ClosedForm:
        """Means and variances."""
        return NearestMean(self.distance)
