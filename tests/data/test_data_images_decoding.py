"""Every kind of image file becomes 8-bit RGB of the asked size, or is called unreadable."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evenstream.data import decoding
from evenstream.data.decoding import UnreadableImage, decode
from tests.helpers.generated_images import picture, plain, save, truncated_jpeg

TEAL = (10, 120, 200)


def as_channels_first(image):
    return np.asarray(image).transpose(2, 0, 1)


def test_an_image_of_the_right_size_is_not_changed(tmp_path):
    image = picture(1, 8, 8)
    decoded = decode(save(image, tmp_path / "a.png"), 8)
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, as_channels_first(image))


@pytest.mark.parametrize(("width", "height"), [(13, 8), (8, 13), (9, 8)])
def test_of_a_longer_side_the_middle_is_kept(tmp_path, width, height):
    image = picture(2, width, height)
    left, top = (width - 8) // 2, (height - 8) // 2
    expected = as_channels_first(image.crop((left, top, left + 8, top + 8)))
    np.testing.assert_array_equal(decode(save(image, tmp_path / "a.png"), 8), expected)


@pytest.mark.parametrize(("width", "height", "size"), [(40, 20, 10), (15, 45, 5), (6, 4, 8)])
def test_the_shorter_side_is_resized(tmp_path, width, height, size):
    image = picture(3, width, height)
    scale = size / min(width, height)
    whole = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    expected = as_channels_first(whole.crop((left, top, left + size, top + size)))
    decoded = decode(save(image, tmp_path / "a.png"), size)
    np.testing.assert_allclose(decoded.astype(int), expected, atol=1)


def test_a_jpeg_much_larger_is_decoded_at_a_part_of_its_size(tmp_path, monkeypatch):
    seen = []
    to_rgb = decoding.to_rgb
    monkeypatch.setattr(decoding, "to_rgb", lambda image: to_rgb(seen.append(image.size) or image))
    smooth = picture(4, 6, 4).resize((1200, 800), Image.Resampling.BICUBIC)
    decoded = decode(save(smooth, tmp_path / "a.jpg", quality=95), 32)
    assert seen == [(150, 100)]  # an eighth, still more than twice the size
    expected = as_channels_first(smooth.crop((200, 0, 1000, 800)).resize((32, 32)))
    assert np.abs(decoded.astype(int) - expected).mean() < 3


def grey_16_bit(path):
    values = np.full((8, 8), 200 * 256 + 77, dtype=np.uint16)
    Image.fromarray(values).save(path)


def palette(path):
    plain(TEAL).convert("P", palette=Image.Palette.ADAPTIVE).save(path)


def palette_with_transparency(path):
    image = plain(TEAL).convert("P", palette=Image.Palette.ADAPTIVE)
    image.save(path, transparency=bytes([0] * 256))


def rotated_by_exif(path):
    exif = Image.Exif()
    exif[0x0112] = 6
    image = plain((0, 0, 0), 8, 8)
    image.paste(plain((255, 255, 255), 8, 4), (0, 0))
    image.save(path, exif=exif, quality=95)


@pytest.mark.parametrize(
    ("make", "name", "colour"),
    [
        (lambda path: plain(TEAL).convert("L").save(path), "grey.jpg", (96, 96, 96)),
        (lambda path: plain((255,) * 3).convert("1").save(path), "bits.png", (255, 255, 255)),
        (lambda path: plain(TEAL).convert("CMYK").save(path, quality=95), "cmyk.JPEG", TEAL),
        (lambda path: plain(TEAL).convert("RGBA").save(path), "alpha.png", TEAL),
        (lambda path: plain(TEAL).convert("RGBA").save(path), "alpha.webp", TEAL),
        (palette, "palette.gif", TEAL),
        (palette, "palette.png", TEAL),
        (palette_with_transparency, "see-through.png", TEAL),
        (grey_16_bit, "deep.png", (200, 200, 200)),
        (grey_16_bit, "deep.tif", (200, 200, 200)),
        (lambda path: plain(TEAL).save(path, format="PNG"), "png-in-a.JPEG", TEAL),
        (lambda path: plain(TEAL).save(path), "bitmap.bmp", TEAL),
    ],
)  # fmt: skip
def test_all_kinds_become_rgb(tmp_path, make, name, colour):
    make(tmp_path / name)
    decoded = decode(tmp_path / name, 6)
    assert decoded.shape == (3, 6, 6)
    np.testing.assert_allclose(decoded.mean((1, 2)), colour, atol=4)


def test_the_orientation_of_exif_is_not_applied(tmp_path):
    rotated_by_exif(tmp_path / "a.jpg")
    decoded = decode(tmp_path / "a.jpg", 8)
    assert decoded[:, :3].min() > 200 and decoded[:, 5:].max() < 50


def float_tiff(path):
    Image.fromarray(np.ones((8, 8), dtype=np.float32)).save(path)


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (lambda path: path.touch(), "empty.jpg", "not an image"),
        (lambda path: path.write_text("no picture"), "text.png", "not an image"),
        (truncated_jpeg, "half.jpg", "truncated"),
        (lambda path: path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n"), "script.jpg", "not an image"),
        (lambda path: path.mkdir(), "folder.jpg", "no such file"),
        (lambda path: None, "missing.jpg", "no such file"),
        (float_tiff, "floats.tif", "floating-point"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(tmp_path, make, name, reason):
    make(tmp_path / name)
    with pytest.raises(UnreadableImage, match=reason):
        decode(tmp_path / name, 8)


@pytest.mark.parametrize("limit", [99, 49])  # where Pillow warns, and where it refuses
def test_decompression_bombs_are_unreadable(tmp_path, monkeypatch, limit):
    path = save(picture(0, 10, 10), tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(UnreadableImage, match="100 pixels"):
        decode(path, 8)


def test_the_limit_holds_where_pillows_is_off(tmp_path, monkeypatch):
    path = save(picture(0, 10, 10), tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(decoding, "MAX_PIXELS", 99)
    with pytest.raises(UnreadableImage, match="10x10 pixels are too many"):
        decode(path, 8)


@given(data=st.data(), suffix=st.sampled_from([".jpg", ".png", ".gif", ".bmp", ".tif", ".webp"]))
def test_damage_of_any_kind_gives_pixels_or_one_error(tmp_path_factory, data, suffix):
    path = tmp_path_factory.mktemp("damage") / f"a{suffix}"
    save(picture(5), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        decoded = decode(path, 8)
    except UnreadableImage as error:
        assert str(error)
    else:
        assert decoded.shape == (3, 8, 8)
