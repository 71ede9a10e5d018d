"""Linear discriminant analysis with one covariance for all classes, from sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from evenstream.bounds import Share
from evenstream.policies.closed_forms.first_rows import FromFirstRows
from evenstream.policies.closed_forms.form import Solution
from evenstream.policies.closed_forms.linear_equations import factored, solved
from evenstream.policies.closed_forms.sums import Sums, deviations, no_bias

Target = Literal["diagonal", "identity"]
Priors = Literal["uniform", "counted"]


@dataclass
class Discriminant(FromFirstRows):
    """Normal classes that share a covariance."""

    shrinkage: Share = 0.0
    """How far the covariance is shrunk towards its target; 0: chosen by oracle approximation."""
    target: Target = "diagonal"
    """diagonal: its own variances, so that the scale of columns does not matter. identity: the mean
    variance for all, as in scikit-learn."""
    priors: Priors = "uniform"
    """Class frequencies assumed when predicting: equal, or as counted."""

    @property
    def why_no_priors(self) -> str | None:
        """Frequencies as counted are in the scores already."""
        counted = "with priors=counted its scores contain the class frequencies of the stream; use "
        return counted + 'method="slda" without it' if self.priors == "counted" else None

    def solve(self, sums: Sums, strength: float | None = None) -> Solution:
        """Log-likelihoods of the classes, without what they share."""
        whiten = not self.is_expensive
        return discriminant(sums, self.shrinkage, self.target, self.priors, whiten=whiten)

    def guess_left_out(self, features: Tensor, labels: Tensor, n_classes: int) -> Tensor | None:
        """Without the row's part in the mean of its class and in the covariance (a downdate).

        Its contributions to the number of rows and to the scale of columns are not removed.
        """
        if self.is_expensive or self.priors == "counted":
            return None
        solution, sums = self.solution(), self.all_sums()
        if solution.whiten is None:
            return None
        means = sums.means @ solution.whiten
        apart = self.columns(features) @ solution.whiten - means[labels]
        count = sums.counts[labels].clamp_min(2)  # rows of weight 1
        more = (count / (count - 1))[:, None]
        own = apart.square().sum(1, keepdim=True)
        part = (1 - solution.strength) * more / max(sums.weight, 2)
        left = (1 - part * own).clamp_min(0.01)
        # (x - m_y)ᵀ S⁻¹ (x - m_c) for every class c
        cross = own - apart @ means.T + (apart * means[labels]).sum(1, keepdim=True)
        further = part * cross.square() / left
        mine = F.one_hot(labels, further.shape[1]).bool()
        further = torch.where(mine, more.square() * own / left - own, further)
        guess = self.log_probabilities(features, solution, n_classes).double()
        further = F.pad(further, (0, n_classes - further.shape[1]))
        return (guess - further / 2).log_softmax(1).float()

    @property
    def tells_familiar(self) -> bool:
        """Unless there are too many columns to compute it at each step."""
        return not self.is_expensive

    def familiarity(self, features: Tensor) -> Tensor:
        """How much likelier the nearest class is than one normal distribution of all rows.

        This is the relative Mahalanobis distance (Ren et al., 2021), up to the sign.
        """
        if not self.rows_taken:  # all were forgotten
            return torch.zeros(len(features), dtype=torch.float64, device=features.device)
        solution, sums = self.solution(), self.all_sums()
        if solution.whiten is None:
            solution = discriminant(sums, self.shrinkage, self.target)
        assert solution.whiten is not None
        shares = sums.counts / sums.weight
        overall = shares @ sums.means
        rows = (self.columns(features) - overall) @ solution.whiten
        means = (sums.means - overall) @ solution.whiten
        nearness = 2 * rows @ means.T - means.square().sum(1) + no_bias(sums.counts)
        between = means * shares.sqrt()[:, None]
        inner = between @ between.T
        inner.diagonal().add_(1.0)
        along = torch.linalg.solve_triangular(factored(inner), between @ rows.T, upper=False)
        found: Tensor = nearness.max(1).values - along.square().sum(0)
        return found


def discriminant(
    sums: Sums,
    shrinkage: float,
    target: Target = "diagonal",
    priors: Priors = "uniform",
    *,
    whiten: bool = False,
) -> Solution:
    """The solution of linear discriminant analysis; a shrinkage of 0 is chosen."""
    covariance = sums.within()
    variances = covariance.diagonal()
    scale = deviations(variances, sums.total_variances())
    if target == "identity":
        scale = torch.full_like(scale, float(variances.mean().sqrt()) or 1.0)
    correlation = covariance / scale / scale[:, None]
    if target == "diagonal":
        correlation.diagonal().fill_(1.0)
    diagonal = correlation.diagonal()
    share = shrinkage or oracle_shrinkage(float(correlation.square().sum()), diagonal, sums.rows)
    correlation *= 1 - share
    correlation.diagonal().add_(share)
    means = (sums.means / scale).T
    found = likelihoods(means, solved(correlation, means), scale, sums.counts, share)
    if whiten:
        found = found._replace(whiten=whitening(correlation, scale))
    if priors == "counted":
        return found._replace(
            bias=found.bias + torch.where(sums.counts > 0, sums.counts, 1.0).log()
        )
    return found


def discriminant_of_rows(
    columns: Tensor, labels: Tensor, weights: Tensor, shrinkage: float
) -> Solution:
    """The same from fewer rows than columns, by way of their inner products (Woodbury)."""
    nothing = Sums.nothing(columns.shape[1], whole=False, device=columns.device)
    sums = nothing.plus(columns, labels, weights)
    scale = deviations(sums.within(), sums.total_variances())
    rows = (columns - sums.means[labels]) / scale * (weights / sums.weight).sqrt()[:, None]
    inner, variances = rows @ rows.T, rows.square().sum(0)
    beside = float(inner.square().sum() - variances.square().sum())  # what is off the diagonal
    whole = torch.ones_like(variances)
    share = shrinkage or oracle_shrinkage(beside + len(whole), whole, len(columns))
    means = (sums.means / scale).T
    if share == 1:
        return likelihoods(means, means, scale, sums.counts, share)
    diagonal = (1 - (1 - share) * variances)[:, None]
    middle = rows @ (rows.T / diagonal)
    middle.diagonal().add_(1 / (1 - share))
    alone = means / diagonal
    weight = alone - rows.T / diagonal @ solved(middle, rows @ alone)
    return likelihoods(means, weight, scale, sums.counts, share)


def whitening(covariance: Tensor, scale: Tensor) -> Tensor:
    """The matrix that removes the covariance of rows, given that of the scaled columns."""
    whiten: Tensor = torch.linalg.solve_triangular(
        factored(covariance), torch.diag(1 / scale), upper=False
    )
    return whiten.T


def likelihoods(
    means: Tensor, weight: Tensor, scale: Tensor, counts: Tensor, share: float
) -> Solution:
    """Log-likelihoods of classes with these means and these weights."""
    bias = no_bias(counts) - (means * weight).sum(0) / 2
    return Solution(weight / scale[:, None], bias, share)


def oracle_shrinkage(squares: float, variances: Tensor, rows: float) -> float:
    """Oracle approximating shrinkage towards the mean variance (Chen et al., 2010).

    `squares` is the sum over all entries of the covariance, squared.
    """
    size = len(variances)
    mean_square, variance = squares / size**2, float(variances.mean()) ** 2
    above = mean_square - variance / size
    return min(1.0, (mean_square + variance) / ((rows + 1) * above)) if above > 0 else 1.0
