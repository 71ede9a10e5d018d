"""Winograd's algorithm gives PyTorch's convolution and its derivatives, for any size of image."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, vmap
from torch.nn import functional as F

from evenstream.networks import winograd

FORMATS = {False: torch.contiguous_format, True: torch.channels_last}


def problem(rows=3, inputs=4, outputs=5, height=6, width=6, dtype=torch.float64, last=False):
    """Images, kernels, and weights for a sum of the outputs."""
    x, weight, weigh = (
        torch.randn(shape, dtype=dtype)
        for shape in (
            (rows, inputs, height, width),
            (outputs, inputs, 3, 3),
            (rows, outputs, height, width),
        )
    )
    return [tensor.contiguous(memory_format=FORMATS[last]) for tensor in (x, weight, weigh)]


def plain(x, weight):
    return F.conv2d(x, weight, padding=1)


def output_and_gradients(convolve, x, weight, weigh):
    x, weight = (tensor.clone().requires_grad_() for tensor in (x, weight))
    out = convolve(x, weight)
    return out.detach(), *torch.autograd.grad((out * weigh).sum(), (x, weight))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 5),
    inputs=st.integers(1, 4),
    outputs=st.integers(1, 4),
    height=st.integers(1, 13),
    width=st.integers(1, 13),
    at_once=st.integers(1, 40),
    last=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_is_the_convolution(rows, inputs, outputs, height, width, at_once, last, seed):
    torch.manual_seed(seed)
    given_ = problem(rows, inputs, outputs, height, width, last=last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "AT_ONCE", at_once)
        mine = output_and_gradients(winograd.convolve, *given_)
        with torch.no_grad():
            assert torch.equal(winograd.convolve(*given_[:2]), mine[0])
    for a, b in zip(mine, output_and_gradients(plain, *given_), strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("channels", "size"), [(64, 32), (160, 4), (512, 4)])
def test_in_float32_rounding_costs_a_hundred_thousandth(channels, size):
    torch.manual_seed(0)
    x, weight, weigh = problem(8, channels, channels, size, size, torch.float32)
    weight /= 3 * channels**0.5
    exact = output_and_gradients(plain, x.double(), weight.double(), weigh.double())
    for a, b in zip(output_and_gradients(winograd.convolve, x, weight, weigh), exact, strict=True):
        assert (a - b).abs().max() < 3e-5 * b.abs().max()


def test_only_the_gradients_that_are_wanted_are_made():
    torch.manual_seed(0)
    x, weight, weigh = problem()
    expected = output_and_gradients(plain, x, weight, weigh)
    for i, wanted in enumerate((x, weight)):
        wanted.requires_grad_()
        (winograd.convolve(x, weight) * weigh).sum().backward()
        torch.testing.assert_close(wanted.grad, expected[1 + i])
        wanted.requires_grad_(False)
    assert not winograd.convolve(x, weight).requires_grad


def test_the_weight_is_not_read_again_in_the_backward_pass_once_it_has_changed():
    x, weight, _ = problem()
    weight.requires_grad_()
    out = winograd.convolve(x, weight).sum()
    with torch.no_grad():
        weight += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_second_derivatives_are_pytorchs():
    torch.manual_seed(0)
    x, weight, _ = problem()

    def penalty(convolve):
        w = weight.clone().requires_grad_()
        (slope,) = torch.autograd.grad(convolve(x, w).square().sum(), w, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), w)[0]

    def penalty_by_transforms(w):
        def loss(w):
            return winograd.convolve(x, w).square().sum()

        return grad(lambda w: grad(loss)(w).square().sum())(w)

    for found in (penalty(winograd.convolve), penalty_by_transforms(weight)):
        torch.testing.assert_close(found, penalty(plain), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 3])
def test_per_sample_gradients_and_many_kernels_at_once(rows):
    torch.manual_seed(0)
    x, weight, _ = problem(rows=2 * rows)
    batches = x.view(2, rows, *x.shape[1:])
    many = torch.stack([weight, 2 * weight])

    def slopes(convolve):
        def loss(w, images):
            return convolve(images, w).square().sum()

        return (
            vmap(grad(loss), in_dims=(None, 0))(weight, batches),
            vmap(grad(loss))(many, batches),
            vmap(convolve)(batches, many),
            vmap(convolve, in_dims=(None, 0))(x, many),
        )

    for a, b in zip(slopes(winograd.convolve), slopes(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_autocast_around_it_changes_nothing():
    torch.manual_seed(0)
    x, weight, weigh = problem(dtype=torch.float32)
    expected = output_and_gradients(winograd.convolve, x, weight, weigh)
    with torch.autocast("cpu", torch.bfloat16):
        found = output_and_gradients(winograd.convolve, x, weight, weigh)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
