"""The parts of an augmentation that change colours, against one pixel at a time."""

import colorsys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenstream import Learner
from evenstream.augment import Gray, Jitter, Preprocess, parse
from evenstream.errors import InputError
from tests.helpers import augment_samples
from tests.helpers.augment_samples import MEAN, STD, rng

SPECS = ["jitter", "jitter1@1", "gray", "gray1", "jitter+gray0.5", "gray0.5+jitter0.9@1"]


def images(n: int = 8, c: int = 3, h: int = 6, w: int = 5, seed: int = 7) -> torch.Tensor:
    """Smaller ones: the oracle goes pixel by pixel."""
    return augment_samples.images(n, c, h, w, seed)


# One sample at a time, the obvious way: the oracles. Images are (h, w, c), in 0..1.


def luma(image: np.ndarray) -> np.ndarray:
    if image.shape[2] == 1:
        return image[..., 0]
    return image @ np.array([0.299, 0.587, 0.114])


def turn_hue(image: np.ndarray, amount: float) -> np.ndarray:
    def pixel(rgb):
        hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
        return colorsys.hsv_to_rgb((hue + amount) % 1, saturation, value)

    return np.apply_along_axis(pixel, 2, image) if image.shape[2] == 3 else image


def jitter_one(image: np.ndarray, turns: list, amounts: list) -> np.ndarray:
    for turn in range(4):
        for change in (index for index in range(4) if turns[index] == turn):
            amount = amounts[change]
            if change == 0:
                image = amount * image
            elif change == 1:
                image = amount * image + (1 - amount) * luma(image).mean()
            elif change == 2:
                image = amount * image + (1 - amount) * luma(image)[..., None]
            else:
                image = turn_hue(image, amount)
            image = image.clip(0, 1)
    return image


def oracle(spec: str, raw: torch.Tensor, seed: int) -> torch.Tensor:
    generator, parts = rng(seed), parse(spec)
    height, width = raw.shape[2:]
    drawn = [part.draw(len(raw), height, width, generator).tolist() for part in parts]
    result = []
    for i in range(len(raw)):
        image = raw[i].permute(1, 2, 0).double().numpy() / 255
        for part, values in zip(parts, drawn, strict=True):
            own = [row[i] for row in values]
            if isinstance(part, Jitter):
                image = jitter_one(image, own[:4], own[4:])
            elif own[0]:
                image = np.broadcast_to(luma(image)[..., None], image.shape)
        result.append(image)
    return torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2).float()


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(SPECS),
    n=st.integers(1, 6),
    c=st.sampled_from([1, 3]),
    h=st.integers(1, 5),
    w=st.integers(1, 5),
    seed=st.integers(0, 10_000),
)
def test_colours_equal_the_oracle(spec, n, c, h, w, seed):
    raw = images(n, c, h, w, seed)
    result = Preprocess(spec).train(raw, rng(seed))
    torch.testing.assert_close(result, oracle(spec, raw, seed), rtol=0, atol=2e-5)


@pytest.mark.parametrize("level", [0, 1, 127, 255])
def test_pixels_without_colour_keep_their_hue_and_saturation(level):
    raw = torch.full((50, 3, 4, 4), level, dtype=torch.uint8)
    result = Preprocess("jitter@1").train(raw, rng())
    assert result.isfinite().all() and result.min() >= 0 and result.max() <= 1
    torch.testing.assert_close(result[:, 0], result[:, 1], rtol=0, atol=1e-6)
    torch.testing.assert_close(result[:, 0], result[:, 2], rtol=0, atol=1e-6)


def test_colours_follow_the_moved_pixels():
    raw = images()
    moved = Preprocess("flip").train(raw, generator := rng(3))
    recoloured = Preprocess("gray1").train((moved * 255).round().to(torch.uint8), generator)
    torch.testing.assert_close(Preprocess("flip+gray1").train(raw, rng(3)), recoloured)


def test_normalisation_comes_after_the_colours():
    raw = images()
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) for x in (MEAN, STD))
    plain = Preprocess("jitter+gray").train(raw, rng(1))
    result = Preprocess("jitter+gray", MEAN, STD).train(raw, rng(1))
    torch.testing.assert_close(result, (plain - mean) / std, rtol=1e-5, atol=1e-5)
    assert torch.equal(Preprocess("jitter+gray").plain(raw), raw / 255)


# The laws of the draws.


def test_amounts_are_uniform_and_orders_alike():
    drawn = Jitter(0.4, 1.0).draw(12_000, 8, 8, rng())
    for amount, low, high in zip(
        drawn[4:], (0.6, 0.6, 0.6, -0.1), (1.4, 1.4, 1.4, 0.1), strict=True
    ):
        assert stats.kstest(((amount - low) / (high - low)).numpy(), "uniform").pvalue > 0.01
    orders = (
        (drawn[:4] * torch.tensor([64, 16, 4, 1])[:, None])
        .sum(0)
        .long()
        .unique(return_counts=True)[1]
    )
    assert len(orders) == 24 and stats.chisquare(orders.numpy()).pvalue > 0.01


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_how_often_colours_change(share):
    gray = Gray(share).draw(20_000, 8, 8, rng())[0]
    jitter = Jitter(0.4, share).draw(20_000, 8, 8, rng(1))[0] >= 0
    for chosen in (gray, jitter):
        assert stats.binomtest(int(chosen.sum()), 20_000, share).pvalue > 0.01


def test_images_that_are_not_chosen_stay_exactly():
    raw = images(200)
    result = Preprocess("jitter@0.5").train(raw, rng())
    chosen = Jitter(0.4, 0.5).draw(200, 6, 5, rng())[0] >= 0
    assert torch.equal(result[~chosen], raw[~chosen] / 255)
    assert (result[chosen] != raw[chosen] / 255).flatten(1).any(1).all()


@pytest.mark.parametrize("spec", SPECS)
def test_draws_depend_on_batch_size_and_spec_only(spec):
    states = []
    for raw in (images(6), images(6, c=1, h=9, w=31), images(6).double() / 255):
        generator = rng(3)
        Preprocess(spec).train(raw, generator)
        states.append(generator.get_state())
    assert all(torch.equal(state, states[0]) for state in states)
    assert not torch.equal(states[0], rng(3).get_state())


# Memory and types.


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("channels", [1, 3])
def test_result_is_new_float32_channels_last(spec, channels):
    preprocess, results = Preprocess(spec), []
    for raw in (images(4, c=channels), images(4, c=channels).float() / 255):
        kept = raw.clone()
        result = preprocess.train(raw, rng())
        assert result.dtype == torch.float32 and result.shape == raw.shape
        assert result.is_contiguous(memory_format=torch.channels_last)
        results.append(result.clone())
        result.fill_(-1)
        assert torch.equal(raw, kept)
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("spec", SPECS)
def test_batches_on_another_device_with_a_cpu_generator(spec):
    # PyTorch's "meta" device computes nothing but, like a GPU, refuses operands from the CPU.
    result = Preprocess(spec, MEAN, STD).train(images().to("meta"), rng())
    assert result.device.type == "meta" and result.shape == images().shape


def test_one_channel_has_no_colour_to_lose():
    raw = images(c=1)
    assert torch.equal(Preprocess("gray1").train(raw, rng()), raw / 255)
    assert not torch.equal(Preprocess("jitter@1").train(raw, rng()), raw / 255)


@pytest.mark.parametrize("n", [0, 1])
def test_tiny_batches(n):
    assert Preprocess("jitter+gray").train(images(2)[:n], rng()).shape == (n, 3, 6, 5)


# The specification, and what is refused.


def test_parse():
    assert parse("jitter") == (Jitter(0.4, 0.8),)
    assert parse("jitter0.2") == parse("jitter.2@0.8") == (Jitter(0.2, 0.8),)
    assert parse("jitter@1") == (Jitter(0.4, 1.0),)
    assert parse("gray+jitter") == (Gray(0.2), Jitter())
    assert parse("gray0.25") == (Gray(0.25),)


@pytest.mark.parametrize(
    "spec",
    ["jitter2", "jitter-0.1", "jitter@", "jitter@2", "jitter@nan", "jitter@x", "gray2", "gray@0.2"],
)
def test_options_that_make_no_sense(spec):
    with pytest.raises(InputError, match=f"augmentation '{spec}': (jitterS@P|grayP) takes"):
        Preprocess(spec)


@pytest.mark.parametrize("spec", ["jitter+crop", "gray+flip", "flip+gray+resized-crop"])
def test_pixels_are_moved_first(spec):
    with pytest.raises(InputError, match="come first"):
        Preprocess(spec)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (images(c=2), "1 or 3 channels, not of 2"),
        (images().float(), "pixels of 0 to 1"),
        (torch.randn(4, 3, 5, 5), "pixels of 0 to 1"),
        (torch.full((4, 3, 5, 5), torch.nan), "pixels of 0 to 1"),
    ],
)
def test_images_without_colours(raw, message):
    preprocess, generator = Preprocess("flip+jitter+gray"), rng()
    with pytest.raises(InputError, match=message):
        preprocess.train(raw, generator)
    assert torch.equal(generator.get_state(), rng().get_state())
    assert preprocess.plain(raw).shape == raw.shape


def test_a_learner_stores_the_colours_that_came_in():
    learner = Learner("er", "mlp", memory=6, augment="resized-crop0.2+flip+jitter@1+gray1")
    learner.learn(images(6), [0, 1, 2, 0, 1, 2])
    learner.learn(images(6), [0, 1, 2, 0, 1, 2])
    stored, given = learner.memory.field("x").flatten(1), images(6).flatten(1)
    assert (stored[:, None] == given).all(2).any(1).all()
    assert len(learner.predict(images(6))) == 6
