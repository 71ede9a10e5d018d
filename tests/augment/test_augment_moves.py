"""Crops, flips and resized crops against one image at a time, and crops to a given size."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from evenstream import Learner, augment
from evenstream.augment import Crop, Flip, Preprocess, ResizedCrop, parse
from evenstream.errors import InputError
from tests.helpers.augment_samples import MEAN, SPECS, STD, images, rng

# One sample at a time, the obvious way: the oracles.


def crop_one(image: np.ndarray, shift: tuple[int, int], padding: int) -> np.ndarray:
    _, height, width = image.shape
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    top, left = shift[0] + padding, shift[1] + padding
    return padded[:, top : top + height, left : left + width]


def resize_one(
    image: np.ndarray, box: tuple[int, int, int, int], size: int | None = None
) -> np.ndarray:
    height, width = (size, size) if size else image.shape[1:]
    top, left, box_h, box_w = box
    cut = torch.from_numpy(image[:, top : top + box_h, left : left + box_w].astype(np.float32))
    out = F.interpolate(cut[None], (height, width), mode="bilinear", align_corners=False)
    return out[0].numpy()


def apply_one(part, drawn: list, image: np.ndarray) -> np.ndarray:
    if isinstance(part, Crop):
        return crop_one(image, (drawn[0], drawn[1]), part.padding)
    if isinstance(part, Flip):
        return image[:, :, ::-1] if drawn[0] else image
    return resize_one(image, tuple(drawn), part.size)


def oracle(spec: str, raw: torch.Tensor, seed: int) -> torch.Tensor:
    """What `train` should return without normalisation, by a loop over samples."""
    generator, parts = rng(seed), parse(spec)
    n, _, height, width = raw.shape
    drawn = []
    for part in parts:
        drawn.append(part.draw(n, height, width, generator).tolist())
        if isinstance(part, ResizedCrop) and part.size:
            height = width = part.size
    result = []
    for i in range(n):
        image = raw[i].numpy()
        for part, values in zip(parts, drawn, strict=True):
            image = apply_one(part, [row[i] for row in values], image)
        result.append(image.astype(np.float32) / 255)
    return torch.from_numpy(np.stack(result))


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(["crop", "crop1", "crop3", "crop20", "flip", "crop+flip", "flip+crop2"]),
    n=st.integers(1, 9),
    c=st.integers(1, 4),
    h=st.integers(1, 11),
    w=st.integers(1, 11),
    seed=st.integers(0, 10_000),
    channels_last=st.booleans(),
)
def test_crop_and_flip_equal_the_oracle_exactly(spec, n, c, h, w, seed, channels_last):
    raw = images(n, c, h, w, seed)
    expected = oracle(spec, raw, seed)
    if channels_last:
        raw = raw.contiguous(memory_format=torch.channels_last)
    assert torch.equal(Preprocess(spec).train(raw, rng(seed)), expected)


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(
        [
            "resized-crop",
            "resized-crop1",
            "resized-crop0.5+flip",
            "flip+resized-crop",
            "crop3+resized-crop",
            "resized-crop+crop3",
            "crop2+flip+resized-crop0.2",
            "flip+resized-crop+crop2",
            "resized-crop.3+flip+crop",
        ]
    ),
    n=st.integers(1, 7),
    c=st.integers(1, 4),
    h=st.integers(1, 13),
    w=st.integers(1, 13),
    seed=st.integers(0, 10_000),
)
def test_resized_crop_equals_interpolating_each_box(spec, n, c, h, w, seed):
    raw = images(n, c, h, w, seed)
    result = Preprocess(spec).train(raw, rng(seed))
    torch.testing.assert_close(result, oracle(spec, raw, seed), rtol=0, atol=2e-5)


# A size of its own.


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(
        [
            "resized-crop@{}",
            "resized-crop0.75@{}+flip",
            "flip+resized-crop@{}",
            "crop3+resized-crop.3@{}+flip",
            "resized-crop@{}+crop2",
            "flip+resized-crop0.5@{}+crop",
        ]
    ),
    size=st.integers(1, 9),
    c=st.integers(1, 4),
    h=st.integers(9, 15),
    w=st.integers(9, 15),
    seed=st.integers(0, 10_000),
)
def test_a_given_size_equals_interpolating_each_box_to_it(spec, size, c, h, w, seed):
    raw, spec = images(5, c, h, w, seed), spec.format(size)
    result = Preprocess(spec).train(raw, rng(seed))
    assert result.shape == (5, c, size, size)
    torch.testing.assert_close(result, oracle(spec, raw, seed), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "top", "left"), [((12, 12), 2, 2), ((8, 13), 0, 2), ((11, 8), 1, 0), ((8, 8), 0, 0)]
)
def test_without_augmentation_the_centre_of_a_given_size_is_seen(shape, top, left):
    raw = images(4, 3, *shape)
    cut = raw[:, :, top : top + 8, left : left + 8]
    result = Preprocess("resized-crop@8+flip", MEAN, STD).plain(raw)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, Preprocess("none", MEAN, STD).plain(cut))


def test_the_boxes_of_a_given_size_are_those_without():
    assert torch.equal(
        ResizedCrop(0.3, 7).draw(50, 12, 15, rng(1)), ResizedCrop(0.3).draw(50, 12, 15, rng(1))
    )


def test_the_own_size_as_a_given_size_changes_nothing():
    raw = images()
    for seed in range(3):
        given_size = Preprocess("resized-crop@12+flip", MEAN, STD).train(raw, rng(seed))
        assert torch.equal(
            given_size, Preprocess("resized-crop+flip", MEAN, STD).train(raw, rng(seed))
        )


@pytest.mark.parametrize("shape", [(11, 12), (12, 11)])
def test_images_smaller_than_the_given_size(shape):
    preprocess, generator = Preprocess("flip+resized-crop@12"), rng()
    raw = images(2, 3, *shape)
    for view in (preprocess.plain, lambda raw: preprocess.train(raw, generator)):
        with pytest.raises(InputError, match=f"at least 12 pixels.*not {shape[0]}x{shape[1]}"):
            view(raw)
    assert torch.equal(generator.get_state(), rng().get_state())


def test_a_learner_sees_the_given_size_and_stores_what_came_in():
    learner = Learner("er", "mlp", memory=10, augment="resized-crop0.75@8+flip")
    raw = images(6)
    learner.learn(raw, [0, 1, 2, 0, 1, 2])
    learner.learn(raw, [0, 1, 2, 0, 1, 2])
    assert learner.network.backbone.fc1.in_features == 3 * 8 * 8
    assert learner.memory.field("x").shape[1:] == (3, 12, 12)
    assert len(learner.predict(raw)) == 6
    with pytest.raises(InputError, match="at least 13 pixels"):
        Learner("er", "mlp", augment="resized-crop@13").learn(raw, [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("spec", [*SPECS, "crop2+resized-crop@9+flip"])
@pytest.mark.parametrize("few", [1, 3])
def test_gathering_a_few_images_at_a_time_changes_nothing(monkeypatch, spec, few):
    preprocess, raw = Preprocess(spec, MEAN, STD), images()
    expected = preprocess.train(raw, rng())
    monkeypatch.setattr(augment.preprocess, "PIXELS_AT_A_TIME", few * expected[0, 0].numel())
    assert torch.equal(preprocess.train(raw, rng()), expected)
