"""The laws of what augmentation draws, and that the generator decides all of it."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from evenstream.augment import Crop, Flip, Preprocess, ResizedCrop
from tests.helpers.augment_samples import SPECS, images, rng

# The laws of the draws.


def test_flip_rate_is_one_half():
    flips = Flip().draw(20_000, 8, 8, rng()).sum().item()
    assert stats.binomtest(int(flips), 20_000, 0.5).pvalue > 0.01


def test_crop_shifts_are_uniform_and_independent():
    shifts = Crop(4).draw(20_000, 32, 32, rng())
    assert shifts.min() == -4 and shifts.max() == 4
    cells = torch.bincount((shifts[0] + 4) * 9 + shifts[1] + 4, minlength=81)
    assert stats.chisquare(cells.numpy()).pvalue > 0.01


def test_crop_reaches_every_place_in_the_result():
    raw = torch.zeros(3000, 1, 9, 9, dtype=torch.uint8)
    raw[:, 0, 4, 4] = 255
    out = Preprocess("crop3").train(raw, rng(1))
    assert out.flatten(1).sum(1).eq(1).all()
    counts = out.sum((0, 1))[1:-1, 1:-1].flatten()
    assert counts.sum() == 3000
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def torchvision_box(height, width, min_area, uniform):
    """torchvision's RandomResizedCrop.get_params, with a source of uniform numbers."""
    for _ in range(10):
        area = height * width * (min_area + (1 - min_area) * uniform())
        low, high = math.log(3 / 4), math.log(4 / 3)
        aspect = math.exp(low + (high - low) * uniform())
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return (
                math.floor(uniform() * (height - h + 1)),
                math.floor(uniform() * (width - w + 1)),
                h,
                w,
            )
    if width / height < 3 / 4:
        w, h = width, round(width / (3 / 4))
    elif width / height > 4 / 3:
        w, h = round(height * (4 / 3)), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(("height", "width", "min_area"), [(32, 32, 0.08), (20, 30, 0.5)])
def test_boxes_follow_torchvisions_law(height, width, min_area):
    boxes = ResizedCrop(min_area).draw(6000, height, width, rng(2)).numpy()
    reference = np.random.default_rng(0)
    expected = np.array(
        [torchvision_box(height, width, min_area, reference.random) for _ in range(6000)]
    ).T
    for ours, theirs in zip(boxes, expected, strict=True):
        low, high = min(ours.min(), theirs.min()), max(ours.max(), theirs.max())
        table = np.stack([np.bincount(x - low, minlength=high - low + 1) for x in (ours, theirs)])
        table = table[:, table.sum(0) >= 10]
        assert stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (9, 1), (8, 8), (5, 64), (64, 5)])
@pytest.mark.parametrize("min_area", [0.01, 0.08, 1.0])
def test_boxes_lie_inside(height, width, min_area):
    top, left, h, w = ResizedCrop(min_area).draw(500, height, width, rng())
    assert (h >= 1).all() and (w >= 1).all() and (top >= 0).all() and (left >= 0).all()
    assert (top + h <= height).all() and (left + w <= width).all()


@pytest.mark.parametrize(
    ("height", "width", "box"),
    [(10, 100, (0, 43, 10, 13)), (100, 10, (43, 0, 13, 10)), (40, 40, (0, 0, 40, 40))],
)
def test_fallback_is_the_central_box(height, width, box):
    # An area of 1.0 to 1.0 never fits a long image; no tries at all never fit anything.
    part = ResizedCrop(1.0) if height != width else ResizedCrop(1.0, tries=0)
    drawn = part.draw(50, height, width, rng())
    assert (drawn == torch.tensor(box)[:, None]).all()


@pytest.mark.parametrize("spec", ["crop", "flip", "resized-crop"])
def test_samples_of_a_batch_are_moved_differently(spec):
    raw = images(1, h=16, w=16).expand(64, -1, -1, -1)
    distinct = Preprocess(spec).train(raw, rng()).flatten(1).unique(dim=0)
    assert len(distinct) == 2 if spec == "flip" else len(distinct) > 30


# Reproducibility.


@pytest.mark.parametrize("spec", SPECS)
def test_same_generator_state_same_result(spec):
    preprocess, raw, generator = Preprocess(spec), images(), rng(5)
    first = preprocess.train(raw, generator)
    second = preprocess.train(raw, generator)
    assert torch.equal(first, preprocess.train(raw, rng(5)))
    assert torch.equal(first, second) == (spec == "none")


@pytest.mark.parametrize("spec", SPECS)
def test_draws_depend_on_batch_size_and_spec_only(spec):
    states = []
    for raw in (images(6), images(6, c=1, h=9, w=31, seed=9), images(6).double()):
        generator = rng(3)
        Preprocess(spec).train(raw, generator)
        states.append(generator.get_state())
    assert all(torch.equal(state, states[0]) for state in states)
    assert torch.equal(states[0], rng(3).get_state()) == (spec == "none")


@pytest.mark.parametrize("spec", SPECS)
def test_the_global_random_state_is_not_used(spec):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    Preprocess(spec).train(images(), rng())
    assert torch.equal(torch.get_rng_state(), before)
