"""The tensors that preprocessing makes: memory, types, scaling, normalisation, devices."""

import pytest
import torch

from evenstream.augment import Preprocess
from tests.helpers.augment_samples import MEAN, SPECS, STD, images, rng

# Memory.


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("normalised", [False, True])
def test_result_is_new_float32_channels_last(spec, dtype, layout, channels, normalised):
    raw = images(4, c=channels).to(dtype).contiguous(memory_format=layout)
    kept = raw.clone()
    stats_ = (MEAN[:channels], STD[:channels]) if normalised else (None, None)
    preprocess = Preprocess(spec, *stats_)
    for result in (preprocess.train(raw, rng()), preprocess.plain(raw)):
        assert result.dtype == torch.float32 and result.shape == raw.shape
        _, c, h, w = raw.shape
        assert result.stride() == (c * h * w, 1, w * c, c)
        assert result.is_contiguous(memory_format=torch.channels_last)
        result.fill_(-1)
    assert torch.equal(raw, kept)


def test_results_of_two_calls_do_not_share_memory():
    preprocess, raw = Preprocess("crop", MEAN, STD), images()
    first = preprocess.plain(raw)
    kept = first.clone()
    preprocess.plain(raw).fill_(9)
    preprocess.train(raw, rng()).fill_(9)
    assert torch.equal(first, kept)
    assert torch.equal(preprocess.plain(raw), kept)


def test_strided_and_expanded_inputs():
    raw = images(8, h=24, w=24)
    cut = raw[::2, :, 3:19, 5:17]
    preprocess = Preprocess("crop+flip", MEAN, STD)
    assert torch.equal(preprocess.train(cut, rng()), preprocess.train(cut.contiguous(), rng()))
    same = raw[:1].expand(5, -1, -1, -1)
    assert torch.equal(preprocess.plain(same), preprocess.plain(same.contiguous()))


# Numbers.


def test_scaling_equals_division_by_255():
    raw = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    assert torch.equal(Preprocess().plain(raw), raw.float() / 255)


@pytest.mark.parametrize("spec", SPECS)
def test_normalisation(spec):
    raw = images()
    scaled = Preprocess(spec).train(raw, rng())
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) for x in (MEAN, STD))
    for given_mean, given_std, expected in [
        (MEAN, STD, (scaled - mean) / std),
        (MEAN, None, scaled - mean),
        (None, STD, scaled / std),
    ]:
        result = Preprocess(spec, given_mean, given_std).train(raw, rng())
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_the_border_is_black_before_normalisation():
    white = torch.full((200, 3, 8, 8), 255, dtype=torch.uint8)
    result = Preprocess("crop4", MEAN, STD).train(white, rng())
    for channel in range(3):
        black, full = ((x - MEAN[channel]) / STD[channel] for x in (0, 1))
        values = result[:, channel].unique()
        torch.testing.assert_close(values, torch.tensor([black, full]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_bytes_and_floats_agree(spec):
    raw = images()
    preprocess = Preprocess(spec, MEAN, STD)
    for dtype in (torch.float32, torch.float64):
        floats = raw.to(dtype) / 255
        torch.testing.assert_close(
            preprocess.train(floats, rng()), preprocess.train(raw, rng()), rtol=1e-5, atol=1e-5
        )
        torch.testing.assert_close(
            preprocess.plain(floats), preprocess.plain(raw), rtol=1e-5, atol=1e-5
        )


def test_floats_are_not_scaled():
    raw = torch.randn(3, 2, 5, 5) * 300
    assert torch.equal(Preprocess().plain(raw), raw)


def test_no_augmentation_is_plain():
    raw = images()
    preprocess = Preprocess("none", MEAN, STD)
    assert torch.equal(preprocess.train(raw, rng()), preprocess.plain(raw))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("n", [0, 1])
def test_tiny_batches(spec, n):
    raw = images(2)[:n]
    preprocess = Preprocess(spec, MEAN, STD)
    assert preprocess.train(raw, rng()).shape == raw.shape
    assert preprocess.plain(raw).shape == raw.shape


def test_images_of_changing_size_and_type_through_one_object():
    preprocess = Preprocess("none", MEAN, STD)
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) for x in (MEAN, STD))
    for raw in (images(), images(h=5, w=9), images().float() / 255, images(2)):
        values = raw / 255 if raw.dtype == torch.uint8 else raw
        torch.testing.assert_close(
            preprocess.plain(raw), (values - mean) / std, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("shape", [(4, 7), (5,), (2, 3, 4), (2, 3, 4, 5, 6)])
def test_other_shapes_are_only_scaled(shape):
    raw = torch.randint(0, 256, shape, dtype=torch.uint8, generator=rng())
    preprocess = Preprocess("none")
    for result in (preprocess.plain(raw), preprocess.train(raw, rng())):
        assert torch.equal(result, raw.float() / 255)
    floats = raw.float()
    kept = floats.clone()
    result = preprocess.plain(floats)
    assert torch.equal(result, kept)
    result.fill_(-1)
    assert torch.equal(floats, kept)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("spec", SPECS)
def test_gpu_batches_with_a_cpu_generator(spec):
    raw, preprocess = images(), Preprocess(spec, MEAN, STD)
    result = preprocess.train(raw.cuda(), rng())
    assert result.is_cuda
    torch.testing.assert_close(result.cpu(), preprocess.train(raw, rng()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_batches_on_another_device_with_a_cpu_generator(spec):
    # PyTorch's "meta" device computes nothing but, like a GPU, refuses operands from the CPU.
    raw, preprocess, generator = images(), Preprocess(spec, MEAN, STD), rng()
    result = preprocess.train(raw.to("meta"), generator)
    assert result.device.type == "meta" and result.shape == raw.shape
    twin = rng()
    assert not preprocess.train(raw, twin).is_meta
    assert torch.equal(generator.get_state(), twin.get_state())


def test_gradients_stop_here():
    raw = torch.rand(2, 3, 8, 8, requires_grad=True)
    for spec in SPECS:
        preprocess = Preprocess(spec, MEAN, STD)
        assert not preprocess.train(raw, rng()).requires_grad
        assert not preprocess.plain(raw).requires_grad
    assert not Preprocess().plain(raw.flatten(1)).requires_grad


def test_inference_mode_leaves_nothing_behind():
    preprocess, raw = Preprocess("crop", MEAN, STD), images()
    with torch.inference_mode():
        preprocess.plain(raw)
    inputs = preprocess.train(raw, rng())
    assert not inputs.is_inference()
    torch.nn.Conv2d(3, 2, 3)(inputs).sum().backward()
