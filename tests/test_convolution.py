"""However a convolution is computed, it is PyTorch's; each way is used where it should be."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap

from evenstream import networks
from evenstream.networks import convolution, winograd
from evenstream.networks.convolution import Convolution


def plain_twin(layer: Convolution) -> nn.Conv2d:
    """PyTorch's layer with the same weights."""
    size = layer.kernel_size[0]
    twin = nn.Conv2d(
        layer.in_channels, layer.out_channels, size, layer.stride[0], size // 2, bias=False
    )
    twin.load_state_dict(layer.state_dict())
    return twin.to(layer.weight.dtype)


def outputs_and_gradients(layer, x, weigh):
    """The output of a layer, and the gradients of a weighted sum of it."""
    x = x.detach().clone().requires_grad_()
    out = layer(x)
    (out * weigh).sum().backward()
    return out.detach(), x.grad, layer.weight.grad


@pytest.fixture
def matrix_calls(monkeypatch):
    """Counts the weight gradients that were made as a matrix product."""
    calls = []
    made = convolution.gradient_by_matrix

    def counted(*args):
        calls.append(args[2])
        return made(*args)

    monkeypatch.setattr(convolution, "gradient_by_matrix", counted)
    return calls


@pytest.fixture
def winograd_calls(monkeypatch):
    """Counts the convolutions that were made by Winograd's algorithm."""
    calls = []
    made = winograd.convolve

    def counted(x, weight):
        calls.append(x.dtype)
        return made(x, weight)

    monkeypatch.setattr(winograd, "convolve", counted)
    return calls


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 4),
    outputs=st.integers(1, 5),
    size=st.sampled_from([3, 5]),
    stride=st.integers(1, 3),
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    last=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_gradient_is_pytorchs(rows, outputs, size, stride, height, width, last, seed):
    torch.manual_seed(seed)
    inputs = 4 * height * width  # few positions for its channels
    layer = Convolution(inputs, outputs, size, stride).double()
    x = torch.randn(rows, inputs, height, width, dtype=torch.float64)
    if last:
        layer, x = (thing.to(memory_format=torch.channels_last) for thing in (layer, x))
    twin = plain_twin(layer)
    assert layer.few_positions(x)
    weigh = torch.randn_like(twin(x))
    mine, theirs = (outputs_and_gradients(one, x, weigh) for one in (layer, twin))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("inputs", "size", "positions", "matrix"),
    [(64, 3, 4, True), (63, 3, 4, False), (64, 3, 5, False), (64, 1, 2, False)],
)
def test_the_matrix_product_is_for_few_positions_and_many_channels(
    matrix_calls, inputs, size, positions, matrix
):
    layer = Convolution(inputs, 2, size)
    layer(torch.randn(2, inputs, positions, positions)).sum().backward()
    assert bool(matrix_calls) == matrix


@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "stride", "rows", "height", "used"),
    [
        (64, 64, 3, 1, 8, 6, True),
        (63, 64, 3, 1, 8, 6, False),
        (64, 63, 3, 1, 8, 6, False),
        (64, 64, 5, 1, 8, 6, False),
        (64, 64, 3, 2, 8, 6, False),
        (64, 64, 3, 1, 7, 6, False),  # 28 tiles
        (64, 64, 3, 1, 1, 128, False),
        (64, 64, 3, 1, 2, 30, True),
    ],
)
def test_winograd_is_for_3x3_kernels_with_many_channels(
    winograd_calls, inputs, outputs, size, stride, rows, height, used
):
    layer = Convolution(inputs, outputs, size, stride)
    x = torch.randn(rows, inputs, height, 6)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), plain_twin(layer)(x), rtol=1e-3, atol=1e-4)
    layer(x)
    assert len(winograd_calls) == 2 * used


@pytest.mark.parametrize("native", [True, False])
def test_winograd_multiplies_in_float32_only(monkeypatch, winograd_calls, native):
    monkeypatch.setattr(convolution, "has_bfloat16", lambda: native)
    torch.manual_seed(0)
    layer, x = Convolution(64, 64, 3), torch.randn(8, 64, 8, 8)
    weigh = torch.randn(8, 64, 8, 8)
    exact = outputs_and_gradients(plain_twin(layer), x, weigh)
    with torch.autocast("cpu", torch.bfloat16):
        mine = outputs_and_gradients(layer, x, weigh)
    assert winograd_calls == ([] if native else [torch.float32])
    assert mine[0].dtype == torch.bfloat16 and mine[2].dtype == torch.float32
    for a, b in zip(mine, exact, strict=True):
        assert 1e-4 * b.norm() < (a - b).norm() < 0.01 * b.norm()
    layer.half()
    with torch.no_grad():
        layer(x.half())
    assert torch.float16 not in winograd_calls


def test_without_a_gradient_it_is_not_used(matrix_calls):
    layer = Convolution(64, 2, 3)
    x = torch.randn(2, 64, 4, 4, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(layer(x), plain_twin(layer)(x))
    layer.requires_grad_(False)(x).sum().backward()
    assert not matrix_calls and x.grad is not None


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("inputs", [64, 8])
def test_under_autocast_numbers_are_rounded_and_the_weights_gradient_is_float32(
    monkeypatch, matrix_calls, native, inputs
):
    monkeypatch.setattr(convolution, "has_bfloat16", lambda: native)
    torch.manual_seed(0)
    layer = Convolution(inputs, 8, 3)
    twin, x = plain_twin(layer), torch.randn(16, inputs, 4, 4)
    weigh = torch.randn(16, 8, 4, 4)
    exact = outputs_and_gradients(twin, x, weigh)
    with torch.autocast("cpu", torch.bfloat16):
        mine = outputs_and_gradients(layer, x, weigh)
    assert mine[0].dtype == torch.bfloat16 and mine[2].dtype == torch.float32
    assert bool(matrix_calls) == (inputs == 64)
    for a, b in zip(mine, exact, strict=True):
        assert 1e-4 * b.norm() < (a - b).norm() < 0.01 * b.norm()


@pytest.mark.parametrize(("inputs", "size"), [(8, 6), (64, 4)])
def test_without_instructions_for_bfloat16_only_factors_and_results_are_rounded(
    monkeypatch, matrix_calls, inputs, size
):
    monkeypatch.setattr(convolution, "has_bfloat16", lambda: False)
    torch.manual_seed(0)

    def rounded(tensor):
        return tensor.bfloat16().double()

    layer = Convolution(inputs, 8, 3)
    x, weigh = torch.randn(16, inputs, size, size), torch.randn(16, 8, size, size)
    twin = plain_twin(layer).double()
    twin.weight.data = rounded(layer.weight.data)
    exact = outputs_and_gradients(twin, rounded(x), rounded(weigh))
    with torch.autocast("cpu", torch.bfloat16):
        mine = outputs_and_gradients(layer, x, weigh)
    for a, b in zip(mine, exact, strict=True):
        assert (a == rounded(b)).float().mean() > 0.99  # a sum's order may turn the last digit
        torch.testing.assert_close(a.double(), b, rtol=2**-7, atol=1e-5)
    assert bool(matrix_calls) == (inputs == 64)


def test_per_sample_gradients_go_through_it(matrix_calls):
    torch.manual_seed(0)
    layer = Convolution(64, 3, 3)
    x = torch.randn(5, 64, 4, 4)

    def loss(parameters, row):
        return functional_call(layer, parameters, (row[None],)).square().sum()

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    found = vmap(grad(loss), in_dims=(None, 0))(parameters, x)["weight"]
    assert matrix_calls
    for row, each in zip(x, found, strict=True):
        twin = plain_twin(layer)
        twin(row[None]).square().sum().backward()
        torch.testing.assert_close(each, twin.weight.grad, rtol=1e-4, atol=1e-4)


def test_second_derivatives_are_pytorchs(matrix_calls):
    torch.manual_seed(0)
    layer = Convolution(16, 2, 3).double()
    x = torch.randn(3, 16, 2, 2, dtype=torch.float64)

    def penalty(layer):
        layer.zero_grad()
        (slope,) = torch.autograd.grad(layer(x).square().sum(), layer.weight, create_graph=True)
        slope.square().sum().backward()
        return layer.weight.grad

    def penalty_by_transforms(layer):
        def loss(weight):
            return functional_call(layer, {"weight": weight}, (x,)).square().sum()

        return grad(lambda weight: grad(loss)(weight).square().sum())(layer.weight.detach())

    expected = penalty(plain_twin(layer))
    assert expected.norm() > 1
    for found in (penalty(layer), penalty_by_transforms(layer)):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert matrix_calls


def test_what_it_does_not_speed_up_goes_to_pytorch(matrix_calls):
    layer = Convolution(64, 2, 3)
    alone = torch.randn(64, 4, 4, requires_grad=True)
    assert torch.equal(layer(alone), plain_twin(layer)(alone))
    with torch.autocast("cpu", torch.bfloat16):
        double = Convolution(8, 2, 3).double()(torch.randn(2, 8, 6, 6, dtype=torch.float64))
    assert double.dtype == torch.float64
    assert not matrix_calls


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
def test_a_whole_network_has_pytorchs_gradients(monkeypatch, matrix_calls, winograd_calls, format):
    torch.manual_seed(0)
    network = networks.build("slim-resnet18", (3, 32, 32)).double().to(memory_format=format)
    x = torch.rand(32, 3, 32, 32, dtype=torch.float64)

    def gradients():
        network.zero_grad()
        network(x).square().sum().backward()
        return [p.grad.clone() for p in network.parameters()]

    mine = gradients()
    assert len(winograd_calls) == 6  # of the last two stages, all but the one with a stride
    assert len(matrix_calls) == 1  # that of the last stage
    monkeypatch.setattr(Convolution, "forward", nn.Conv2d.forward)
    for a, b in zip(mine, gradients(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_its_own_kernels_can_be_switched_off(matrix_calls):
    layer = Convolution(64, 8, 3)
    layer.own_kernels = False
    x = torch.randn(4, 64, 3, 3)
    weigh = torch.randn(4, 8, 3, 3)
    mine, theirs = (outputs_and_gradients(one, x, weigh) for one in (layer, plain_twin(layer)))
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)) and not matrix_calls
    layer.own_kernels = True
    outputs_and_gradients(layer, x, weigh)
    assert matrix_calls
