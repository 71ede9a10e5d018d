"""RandAugment against PIL and against one pixel at a time."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats

from evenstream import Learner
from evenstream.augment import Preprocess, RandAugment, parse
from evenstream.augment.rand_augment import CHANGES
from evenstream.errors import InputError
from tests.helpers import augment_samples
from tests.helpers.augment_samples import MEAN, STD, rng

NAMES = (
    *("identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate"),
    *("brightness", "colour", "contrast", "sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize"),
)


def images(n=6, c=3, h=9, w=7, seed=7):
    return augment_samples.images(n, c, h, w, seed)


def changed(name, raw, magnitude, sign):
    """All images by one change, as bytes (h, w, c)."""
    pixels = raw.permute(0, 2, 3, 1).float() / 255
    drawn = torch.tensor([[NAMES.index(name)] * len(raw), [sign] * len(raw)])
    found = RandAugment(1, magnitude).recolour(pixels, drawn)
    return (found * 255).numpy()


def moved(image, source):
    """The pixel of the nearest place that `source` names for each place; black outside."""
    height, width, _ = image.shape
    out = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            column, row = source(x + 0.5, y + 0.5)
            if 0 <= column < width and 0 <= row < height:
                out[y, x] = image[math.floor(row), math.floor(column)]
    return out


def oracle(name, image, magnitude, sign):
    height, width, _ = image.shape
    level = magnitude / 30
    by, angle = sign * 0.3 * level, sign * math.radians(30 * level)
    if name == "shear-x":
        return moved(image, lambda x, y: (x + by * y, y))
    if name == "shear-y":
        return moved(image, lambda x, y: (x, y + by * x))
    if name == "translate-x":
        return moved(image, lambda x, y: (x - sign * int(150 / 331 * width * level), y))
    if name == "translate-y":
        return moved(image, lambda x, y: (x, y - sign * int(150 / 331 * height * level)))
    if name == "rotate":

        def source(x, y):
            across, down = x - width / 2, y - height / 2
            return (
                width / 2 + across * math.cos(angle) + down * math.sin(angle),
                height / 2 - across * math.sin(angle) + down * math.cos(angle),
            )

        return moved(image, source)
    picture = Image.fromarray(image)
    factor = 1 + 0.9 * level * sign
    made = {
        "identity": lambda: picture,
        "brightness": lambda: ImageEnhance.Brightness(picture).enhance(factor),
        "colour": lambda: ImageEnhance.Color(picture).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(picture).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(picture).enhance(factor),
        "posterize": lambda: ImageOps.posterize(picture, 8 - round(4 * level)),
        "solarize": lambda: ImageOps.solarize(picture, 255 * (1 - level)),
        "autocontrast": lambda: ImageOps.autocontrast(picture),
        "equalize": lambda: ImageOps.equalize(picture),
    }[name]()
    return np.asarray(made)


EXACT = {"identity", "posterize", "solarize", "equalize"}


@pytest.mark.parametrize("magnitude", [0, 9, 14, 29])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_every_change_equals_its_oracle(name, magnitude, sign):
    raw = torch.cat([images(3), images(3) // 4 + 90])  # the last ones with little contrast
    found = changed(name, raw, magnitude, sign)
    wanted = np.stack(
        [oracle(name, x.permute(1, 2, 0).numpy(), magnitude, sign) for x in raw]
    ).astype(float)
    if name in ("shear-x", "shear-y", "rotate"):
        # a place right between two pixels may fall to either side
        assert (np.abs(found - wanted) > 0.01).mean() < 0.01
    else:  # PIL rounds
        np.testing.assert_allclose(found, wanted, atol=0.01 if name in EXACT else 1.6)


def test_a_flat_image_stays_as_it_is():
    raw = torch.full((2, 3, 5, 5), 77, dtype=torch.uint8)
    for name in ("autocontrast", "equalize", "sharpness", "contrast"):
        np.testing.assert_allclose(changed(name, raw, 30, 1), 77, atol=1e-3)


@pytest.mark.parametrize("spec", ["randaugment", "crop+flip+randaugment1@14", "randaugment3@30"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 5), (3, 1, 1), (3, 2, 9)])
def test_results_are_images_in_range(spec, shape):
    raw = images(40, *shape)
    kept = raw.clone()
    result = Preprocess(spec).train(raw, rng())
    assert result.shape == raw.shape and result.dtype == torch.float32
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert result.isfinite().all() and result.min() >= 0 and result.max() <= 1
    assert torch.equal(raw, kept)
    floats = Preprocess(spec).train(raw.float() / 255, rng())
    torch.testing.assert_close(result, floats)
    if shape[1] > 4:
        assert not torch.equal(result, raw / 255)


def test_changes_are_made_one_after_the_other():
    raw = images(50)
    drawn = RandAugment(2, 20).draw(50, 9, 7, rng(3))
    pixels = raw.permute(0, 2, 3, 1).float() / 255
    for chosen, signs in zip(drawn[:2], drawn[2:], strict=True):
        one = torch.stack([chosen, signs])
        pixels = RandAugment(1, 20).recolour(pixels, one)
    found = Preprocess("randaugment2@20").train(raw, rng(3))
    torch.testing.assert_close(found, pixels.permute(0, 3, 1, 2))


def test_changes_are_drawn_alike():
    drawn = RandAugment(2, 9).draw(10_000, 8, 8, rng())
    for chosen in drawn[:2]:
        assert stats.chisquare(chosen.bincount().numpy()).pvalue > 0.01
    assert len(CHANGES) == len(NAMES) == len(drawn[0].unique())
    assert stats.binomtest(int((drawn[2:] > 0).sum()), 20_000).pvalue > 0.01


def test_on_another_device_with_a_cpu_generator():
    result = Preprocess("randaugment", MEAN, STD).train(images().to("meta"), rng())
    assert result.device.type == "meta"


def test_as_it_is_written():
    assert parse("randaugment") == (RandAugment(2, 9.0),)
    assert parse("crop+randaugment1@14")[1] == RandAugment(1, 14.0)


@pytest.mark.parametrize(
    "spec", ["randaugment0", "randaugment1.5", "randaugment1@31", "randaugment@x", "randaugment-1"]
)
def test_what_makes_no_sense_is_refused(spec):
    with pytest.raises(InputError, match="as in randaugment1@14"):
        parse(spec)


def test_a_learner_repeats_it():
    learners = [Learner("er", "convnet", augment="crop+flip+randaugment1@14") for _ in range(2)]
    for learner in learners:
        learner.learn(images(8, h=16, w=16), [0, 1] * 4)
    assert learners[0].fingerprint() == learners[1].fingerprint()
