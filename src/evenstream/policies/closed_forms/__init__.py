"""Closed forms: classifiers that are solved from sums over the stream, without gradient steps."""

from evenstream.policies.closed_forms.discriminant import Discriminant
from evenstream.policies.closed_forms.form import ClosedForm, Solution
from evenstream.policies.closed_forms.fourier import FourierDiscriminant
from evenstream.policies.closed_forms.nearest_mean import NearestMean
from evenstream.policies.closed_forms.ridge import ProjectedRidge
from evenstream.policies.closed_forms.sums import Sums

__all__ = [
    "ClosedForm",
    "Discriminant",
    "FourierDiscriminant",
    "NearestMean",
    "ProjectedRidge",
    "Solution",
    "Sums",
]
