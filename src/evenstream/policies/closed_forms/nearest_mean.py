"""Nearest class mean, and how the columns vary inside the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.policies.closed_forms.first_rows import FromFirstRows
from evenstream.policies.closed_forms.form import ClosedForm, Solution
from evenstream.policies.closed_forms.sums import Sums, deviations, no_bias

Distance = Literal["scaled", "euclidean", "cosine"]


@dataclass
class NearestMean(FromFirstRows):
    """The class with the nearest mean; probabilities as for normal classes without covariance."""

    second_moments = False

    distance: Distance = "scaled"
    """scaled: each column in units of its standard deviation inside the classes. euclidean: the
    columns as they are. cosine: rows and means of length one."""

    def columns(self, features: Tensor) -> Tensor:
        """The features, scaled to length one where only the angle matters."""
        if self.distance == "cosine":
            return F.normalize(features.double(), dim=1)
        return super().columns(features)

    def refresh(self) -> None:
        """Cosine distance has no origin to move."""
        if self.distance != "cosine":
            return super().refresh()
        self.tensors.pop(self.ORIGIN, None)
        ClosedForm.refresh(self)

    def solve(self, sums: Sums, strength: float | None = None) -> Solution:
        """Minus half the squared distance, without the term that depends only on the row."""
        means, variances = sums.means, sums.within()
        if self.distance == "scaled":
            variances = deviations(variances, sums.total_variances()).square()
        else:
            variances = torch.full_like(variances, float(variances.mean()) or 1.0)
        if self.distance == "cosine":
            means = F.normalize(means, dim=1)
        weight = means.T / variances[:, None]
        return Solution(weight, no_bias(sums.counts) - (means.T * weight).sum(0) / 2)
