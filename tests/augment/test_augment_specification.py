"""What an augmentation is written as, and what is refused."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evenstream.augment import PARTS, Crop, Flip, Preprocess, ResizedCrop, parse
from evenstream.errors import EvenstreamError, InputError, UnknownName
from tests.helpers.augment_samples import MEAN, STD, images, rng


def test_parse():
    assert parse("none") == ()
    assert parse("crop") == (Crop(4),)
    assert parse("crop12+flip") == (Crop(12), Flip())
    assert parse("flip + crop") == (Flip(), Crop(4))
    assert parse("resized-crop") == (ResizedCrop(0.08),)
    assert parse("resized-crop0.2") == parse("resized-crop.2") == (ResizedCrop(0.2),)
    assert parse("resized-crop1") == (ResizedCrop(1.0),)
    assert parse("resized-crop@224") == (ResizedCrop(0.08, 224),)
    assert parse("resized-crop0.75@299+flip") == (ResizedCrop(0.75, 299), Flip())


@pytest.mark.parametrize(
    "spec", ["cropp", "flip+jiter", "", "crop+", "+", "4", "crop-", "Flip", "crop٣"]
)
def test_unknown_parts(spec):
    with pytest.raises(UnknownName, match="unknown augmentation"):
        Preprocess(spec)


def test_unknown_part_lists_what_exists():
    with pytest.raises(UnknownName) as caught:
        Preprocess("@@@")
    assert all(name in str(caught.value) for name in PARTS)


@pytest.mark.parametrize(
    "spec",
    [
        "crop0",
        "crop1.5",
        "crop-1",
        "crop99999",
        "flip2",
        "resized-crop0",
        "resized-crop1.01",
        "resized-crop-0.5",
        "none+flip",
        "flip+none",
        "none3",
        "none@8",
        "crop@8",
        "flip@8",
        "resized-crop@",
        "resized-crop@0",
        "resized-crop@-8",
        "resized-crop@8.5",
        "resized-crop@10000",
        "resized-crop@8@8",
        "resized-crop@٣",
        "jitter@0_1",
        "jitter@١",
        "flip+flip",
        "crop+crop2",
    ],
)
def test_parts_that_make_no_sense(spec):
    with pytest.raises(InputError, match="augmentation"):
        Preprocess(spec)


@given(st.text(alphabet="cropflizedn-+.@0123456789 ", max_size=16))
def test_parse_raises_nothing_but_our_errors(spec):
    try:
        parse(spec)
    except EvenstreamError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.5, 0.5), (1.0,), "2 channels and std has 1"),
        ((math.nan,), None, "mean must be finite"),
        (None, (0.0,), "std must be positive"),
        (None, (-1.0, 1.0), "std must be positive"),
        (None, (math.inf,), "std must be positive"),
        (None, (math.nan,), "std must be positive"),
        ((), None, "number for each channel"),
        (None, (), "number for each channel"),
    ],
)
def test_statistics_that_make_no_sense(mean, std, message):
    with pytest.raises(InputError, match=message):
        Preprocess("none", mean, std)


@pytest.mark.parametrize("spec", ["none", "crop"])
def test_statistics_for_other_channels(spec):
    preprocess = Preprocess(spec, MEAN, STD)
    with pytest.raises(InputError, match="3 channels, but the images have 1"):
        preprocess.train(images(c=1), rng())
    with pytest.raises(InputError, match="3 channels, but the images have 1"):
        preprocess.plain(images(c=1))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("statistics", [(MEAN, None), (None, STD), (MEAN, STD)])
def test_statistics_for_what_is_not_an_image(shape, statistics):
    preprocess = Preprocess("none", *statistics)
    for make in (preprocess.plain, lambda raw: preprocess.train(raw, rng())):
        with pytest.raises(InputError, match=r"mean and std are for images.*mlp-norm"):
            make(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_other_types(dtype):
    for spec in ("none", "crop"):
        with pytest.raises(InputError, match="uint8 or floating"):
            Preprocess(spec).train(images().to(dtype), rng())


@pytest.mark.parametrize("shape", [(4, 7), (2, 3, 4)])
def test_augmenting_what_is_not_an_image(shape):
    generator = rng()
    with pytest.raises(InputError, match="takes images"):
        Preprocess("flip").train(torch.zeros(shape), generator)
    assert torch.equal(generator.get_state(), rng().get_state())


@pytest.mark.parametrize("spec", ["crop", "resized-crop"])
def test_images_without_pixels(spec):
    with pytest.raises(InputError, match="no pixels"):
        Preprocess(spec).train(torch.zeros(2, 3, 0, 4), rng())


def test_repr():
    assert repr(Preprocess("crop", (0.5,))) == "Preprocess('crop', mean=(0.5,), std=None)"
