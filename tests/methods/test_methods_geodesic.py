"""The geodesic-flow kernel: worked numbers, its properties, and the integral that it stands for."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from evenstream.methods.parts.geodesic import (
    centred,
    cosine_distance,
    geodesic_distance,
    kernel_root,
    principal_angles,
    principal_basis,
    root_between,
)

OLD = torch.tensor([[2.0, 0, 1, 0, 1], [0, 3, 1, 1, 0], [1, 1, 0, 2, 1], [3, 1, 0, 0, 2]])
NEW = torch.tensor([[1.0, 0, 2, 0, 1], [0, 2, 1, 2, 0], [1, 2, 0, 2, 0], [2, 1, 1, 0, 2]])

seeds = st.integers(0, 10_000)


def kernel(start, end):
    """G itself."""
    root = kernel_root(start, end)
    return root @ root.T


def basis(generator, features, size):
    return torch.linalg.qr(torch.randn(features, size, generator=generator).double()).Q


def some_kernel(seed, features=7, size=3):
    generator = torch.Generator().manual_seed(seed)
    start, end = basis(generator, features, size), basis(generator, features, size)
    return start, end, kernel(start, end)


def close(found, expected, atol=5e-7):
    expected = torch.as_tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def columns(*vectors):
    return torch.tensor(vectors, dtype=torch.float64).T


def losses(g, u, v):
    u, v = (torch.tensor(row, dtype=torch.float64) for row in (u, v))
    return torch.stack([1 - u @ g @ v / (u @ g @ u * (v @ g @ v)).sqrt(), (u - v) @ g @ (u - v)])


@pytest.mark.parametrize(
    ("angle", "expected", "cosine"),
    [
        (math.pi / 2, [[0.5, 0.3183], [0.3183, 0.5]], 0.363380),
        (math.pi / 4, [[0.8183, 0.3183], [0.3183, 0.1817]], 0.174484),
    ],
)
def test_lines_in_the_plane(angle, expected, cosine):
    g = kernel(columns([1, 0]), columns([math.cos(angle), math.sin(angle)]))
    close(g, expected, atol=5e-5)
    close(losses(g, [1, 0], [0, 1]), [cosine, 0.363380])


def test_planes_in_four_dimensions():
    turned = [[math.cos(0.3), 0, math.sin(0.3), 0], [0, math.cos(1.1), 0, math.sin(1.1)]]
    g = kernel(columns([1, 0, 0, 0], [0, 1, 0, 0]), columns(*turned))
    expected = [
        [0.9705, 0, 0.1456, 0],
        [0, 0.6837, 0, 0.3610],
        [0.1456, 0, 0.0295, 0],
        [0, 0.3610, 0, 0.3163],
    ]
    close(g, expected, atol=5e-5)
    half = math.sqrt(0.5)
    close(losses(g, [half, half, 0, 0], [half, 0, half, 0]), [0.236318, 0.356607])


@pytest.mark.parametrize(
    ("centring", "quadratic", "cosine"),
    [
        ("batch", 0.109205, 0.127469),
        ("feature", 0.114743, 0.141379),
        ("none", 0.031341, 0.014247),
    ],
)
def test_a_batch_of_features(centring, quadratic, cosine):
    close(geodesic_distance(OLD, NEW, form="quadratic", centring=centring), quadratic)
    close(geodesic_distance(OLD, NEW, centring=centring), cosine)


@pytest.mark.parametrize("form", ["cosine", "quadratic"])
def test_single_precision_is_computed_in_double_and_cast_back(form):
    found = geodesic_distance(OLD, NEW, form=form)
    exact = geodesic_distance(OLD.double(), NEW.double(), form=form)
    assert found.dtype == torch.float32 and found == exact.float()


def test_the_batch_has_two_angles():
    u, v = (centred(F.normalize(rows.double()), "batch") for rows in (OLD, NEW))
    angles, _, _ = principal_angles(principal_basis(u)[:, :2], principal_basis(v)[:, :2])
    close(angles, [0.3515, 1.1408], atol=5e-5)


def test_cosine_distance_worked_numbers():
    close(cosine_distance(OLD, NEW), 0.112636)
    old, new = torch.tensor([[3.0, 4], [1, 0]]), torch.tensor([[4.0, 3], [0, 2]])
    close(cosine_distance(old[:1], new[:1]), 0.04)
    close(cosine_distance(old[1:], new[1:]), 1.0)
    close(5 * cosine_distance(old, new), 2.6)
    close(cosine_distance(old, torch.zeros(2, 2)), 1.0)


@given(seeds, st.floats(0.01, 100))
def test_cosine_distance_knows_directions_only(seed, scale):
    generator = torch.Generator().manual_seed(seed)
    old, new = torch.randn(2, 4, 6, generator=generator)
    new.requires_grad_()
    loss = cosine_distance(old, new)
    close(cosine_distance(old * scale, new), loss, atol=1e-5)
    close(cosine_distance(old, new * scale), loss, atol=1e-5)
    (gradient,) = torch.autograd.grad(loss, new)
    close((gradient * new).sum(1), torch.zeros(4), atol=1e-6)


@given(seeds, st.integers(1, 6))
def test_trace_symmetry_and_eigenvalues(seed, size):
    g = some_kernel(seed, size=size)[2]
    close(g, g.T, atol=1e-12)
    close(g.trace(), size, atol=1e-10)
    eigenvalues = torch.linalg.eigvalsh(g)
    assert eigenvalues.min() > -1e-10 and eigenvalues.max() < 1 + 1e-10


@given(seeds)
def test_neither_bases_nor_order_matter(seed):
    start, end, g = some_kernel(seed)
    turn = basis(torch.Generator().manual_seed(seed + 1), 3, 3)
    for other in (kernel(start @ turn, end), kernel(start, end @ turn), kernel(end, start)):
        close(other, g, atol=1e-10)


@given(seeds)
def test_equal_subspaces_give_the_projector(seed):
    start = some_kernel(seed)[0]
    turn = basis(torch.Generator().manual_seed(seed), 3, 3)
    close(kernel(start, start @ turn), start @ start.T, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_is_the_integral_along_the_geodesic(seed):
    """Simpson's rule over the path, whose columns come from the formula of the exponential map.

    The direction is H = (I - PPᵀ)Q(PᵀQ)⁻¹ with the thin decomposition UΣVᵀ and angles arctan Σ.
    """
    start, end, g = some_kernel(seed)
    direction = (end - start @ start.T @ end) @ torch.linalg.inv(start.T @ end)
    u, sigma, vt = torch.linalg.svd(direction, full_matrices=False)
    theta, steps = torch.atan(sigma), 400
    total = torch.zeros(7, 7, dtype=torch.float64)
    for step in range(steps + 1):
        t = step / steps
        frame = start @ vt.T * torch.cos(t * theta) + u * torch.sin(t * theta)
        weight = 1 if step in (0, steps) else 4 if step % 2 else 2
        total += weight * frame @ frame.T
    close(g, total / (3 * steps), atol=1e-8)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 3e-7, 3e-6, 1e-5, 1e-3])
def test_small_angles_are_exact(angle):
    lines = columns([1, 0]), columns([math.cos(angle), math.sin(angle)])
    assert float(principal_angles(*lines)[0]) == pytest.approx(angle, rel=1e-9, abs=1e-12)
    expected = [[1 - angle**2 / 3, angle / 2], [angle / 2, angle**2 / 3]]
    close(kernel(*lines), expected, atol=1e-6 if angle < 1e-6 else 1e-9)


@given(seeds, st.sampled_from(["cosine", "quadratic"]), st.sampled_from(["batch", "none"]))
def test_distance_of_features_that_only_grew_is_zero(seed, form, centring):
    old = torch.randn(8, 12, generator=torch.Generator().manual_seed(seed))
    close(geodesic_distance(old, 3 * old, form=form, centring=centring), 0.0, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
def test_two_rows_have_the_cosine_distance(rows):
    assert geodesic_distance(OLD[:rows], NEW[:rows]) == cosine_distance(OLD[:rows], NEW[:rows])


def test_rows_all_alike_have_the_cosine_distance():
    alike = torch.tensor([0.1, 0.7, 0.3, 0.9, 0.2]).expand(7, 5)  # their mean is not quite theirs
    for old in (torch.cat([OLD, NEW[:3]]), OLD[0].expand(7, 5)):
        assert geodesic_distance(old, alike) == cosine_distance(old, alike)


def test_more_rows_than_features():
    generator = torch.Generator().manual_seed(0)
    old, new = torch.randn(2, 20, 3, generator=generator)
    found = geodesic_distance(old, new)  # both subspaces are everything: the kernel is the identity
    close(found, cosine_distance(old, new), atol=1e-6)


def test_features_that_are_not_finite_give_a_loss_that_the_learner_refuses():
    assert geodesic_distance(OLD, NEW * math.nan).isnan()


@pytest.mark.parametrize("form", ["cosine", "quadratic"])
def test_the_kernel_is_a_constant_for_the_gradient(form):
    """The gradient is that of the same form with the kernel of this very batch held fixed."""
    new = NEW.double().requires_grad_()
    (found,) = torch.autograd.grad(geodesic_distance(OLD, new, form=form), new)
    u, v = (F.normalize(rows.double()) for rows in (OLD, NEW))
    root = root_between(centred(u, "batch"), centred(v, "batch"))
    g = root @ root.T

    def fixed(new):
        v = F.normalize(new)
        if form == "quadratic":
            return torch.einsum("ni,ij,nj->n", u - v, g, u - v).mean()
        uv, uu, vv = (torch.einsum("ni,ij,nj->n", a, g, b) for a, b in ((u, v), (u, u), (v, v)))
        return (1 - uv / (uu * vv).sqrt()).mean()

    other = NEW.double().requires_grad_()
    (expected,) = torch.autograd.grad(fixed(other), other)
    close(found, expected, atol=1e-10)
    assert found.abs().max() > 1e-3
