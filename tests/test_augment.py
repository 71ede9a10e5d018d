import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenstream import Learner, augment
from evenstream.augment import PARTS, Crop, Flip, Preprocess, ResizedCrop, parse
from evenstream.errors import EvenstreamError, InputError, UnknownName

SPECS = ["none", "crop", "flip", "crop2+flip", "resized-crop", "resized-crop0.3+flip"]
MEAN, STD = (0.1, 0.5, 0.7), (0.2, 0.25, 0.5)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int = 8, c: int = 3, h: int = 12, w: int = 12, seed: int = 7) -> torch.Tensor:
    return torch.randint(0, 256, (n, c, h, w), dtype=torch.uint8, generator=rng(seed))


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
    monkeypatch.setattr(augment.preprocess, "_PIXELS_AT_A_TIME", few * expected[0, 0].numel())
    assert torch.equal(preprocess.train(raw, rng()), expected)


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
    preprocess = Preprocess("none", MEAN, STD)
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


# The specification.


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


@pytest.mark.parametrize("spec", ["cropp", "flip+jiter", "", "crop+", "+", "4", "crop-", "Flip"])
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
        ((), None, "mean is empty"),
        (None, (), "std is empty"),
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
