"""GeoDL: preserve features along the geodesic between their old and new subspaces."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from evenstream.bounds import Factor
from evenstream.core.step import Step
from evenstream.methods.base import register
from evenstream.methods.parts.geodesic import Centring, GeodesicForm, geodesic_distance
from evenstream.methods.parts.taught_replay import FeaturesAndLogits, TaughtReplay


@register("geodl")
@dataclass
class GeoDL(TaughtReplay):
    """Distance of features under the exact geodesic-flow kernel of each batch."""

    citation = "Simon et al., On Learning the Geodesic Path for Incremental Learning, 2021"

    weight: Factor = 5.0
    """Weight of the distance between features (β)."""
    form: GeodesicForm = "cosine"
    """The published cosine under the kernel, or the public code's quadratic form."""
    centring: Centring = "batch"
    """Centring of the subspaces: by the mean of the batch, not at all, or (in the public code) by
    each row's own mean over its features."""

    def distance(self, step: Step, new: FeaturesAndLogits, old: FeaturesAndLogits) -> Tensor:
        """Distance along the geodesic of old and new features."""
        (features, _), (old_features, _) = new, old
        return geodesic_distance(old_features, features, form=self.form, centring=self.centring)
