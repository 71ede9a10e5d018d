"""How far features have moved: in direction, and along the geodesic of their subspaces."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Centring = Literal["batch", "none", "feature"]
GeodesicForm = Literal["cosine", "quadratic"]

TINY = 1e-6
NORM_FLOOR = 1e-8


def cosine_distance(old: Tensor, new: Tensor) -> Tensor:
    """Mean over rows of 1 - cos(old, new); a row of zeros is at distance 1 from any."""
    return 1 - F.cosine_similarity(old, new, eps=NORM_FLOOR).mean()


def geodesic_distance(
    old: Tensor,
    new: Tensor,
    *,
    form: GeodesicForm = "cosine",
    centring: Centring = "batch",
) -> Tensor:
    """Mean over rows of the distance under the geodesic kernel G of two batches of features.

    With rows normalised to u (old) and v (new), `cosine` is 1 - uᵀGv / √(uᵀGu · vᵀGv), `quadratic`
    is (u-v)ᵀG(u-v). G is a constant: gradients flow through v only. Its subspaces are those of the
    rows after `centring`: by the mean of the batch, not at all, or by each row's own mean. For a
    batch without subspaces (at most two rows, or identical rows) it is the plain cosine distance.
    """
    u, v = (F.normalize(rows.double(), dim=1, eps=NORM_FLOOR) for rows in (old, new))
    root = root_between(centred(u.detach(), centring), centred(v.detach(), centring))
    if root is None:
        return cosine_distance(old, new)
    u, v = u @ root, v @ root
    distance = cosine_distance(u, v) if form == "cosine" else (u - v).square().sum(1).mean()
    return distance.to(new.dtype)


def centred(rows: Tensor, centring: Centring) -> Tensor:
    """Rows minus the batch's mean, minus each row's own mean over features, or unchanged."""
    if centring == "none":
        return rows
    return rows - rows.mean(0 if centring == "batch" else 1, keepdim=True)


def root_between(old: Tensor, new: Tensor) -> Tensor | None:
    """The kernel's root for the principal subspaces of n old and n new rows; None without any.

    The size of the subspaces is n-2, or the smaller rank if that is less.
    """
    if not bool(torch.isfinite(old).all() and torch.isfinite(new).all()):
        return None
    start, end = principal_basis(old), principal_basis(new)
    size = min(len(old) - 2, start.shape[1], end.shape[1])
    return kernel_root(start[:, :size], end[:, :size]) if size > 0 else None


def principal_basis(rows: Tensor) -> Tensor:
    """Orthonormal columns that span the rows, by decreasing variance, as many as the rank."""
    _, singular, directions = torch.linalg.svd(rows, full_matrices=False)
    basis: Tensor = directions[singular > TINY * singular[0].clamp_min(TINY)].T
    return basis


def kernel_root(start: Tensor, end: Tensor) -> Tensor:
    """R with G = R Rᵀ = ∫₀¹ Φ(t)Φ(t)ᵀ dt, where Φ is the geodesic between two subspaces.

    Both are given by equally many orthonormal columns. Φ(t) has a column cos(tθ)·a + sin(tθ)·q
    for each principal angle θ, so G is the sum of λ₁·aaᵀ + λ₂·(aqᵀ + qaᵀ) + λ₃·qqᵀ over the angles;
    with R, built from the Cholesky factor of the λ, G (features x features) is never formed.
    """
    angles, a, q = principal_angles(start, end)
    half = torch.sinc(2 * angles / torch.pi) / 2
    first, third = 0.5 + half, 0.5 - half
    second = torch.sinc(angles / torch.pi) * angles.sin() / 2
    rest = (third - second.square() / first).clamp_min(0)
    return torch.cat([(first * a + second * q) / first.sqrt(), rest.sqrt() * q], 1)


def principal_angles(start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Angles θ between two subspaces, vectors a of the first, unit vectors q they turn towards."""
    left, cosines, right = torch.linalg.svd(start.T @ end)
    a, b = start @ left, end @ right.T
    across = b - cosines * a
    sines = across.norm(dim=0)
    q = torch.where(sines < TINY, 0, across / sines.clamp_min(TINY))
    return torch.atan2(sines, cosines), a, q  # acos would be inaccurate at small angles
