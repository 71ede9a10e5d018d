"""Decodes an image file to pixels of a fixed size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenstream.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Suffixes of image files, in lower case."""

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MAX_PIXELS = 89_478_485  # where Pillow starts to warn of decompression bombs


class UnreadableImage(Exception):
    """A file that cannot be decoded; the message is the reason."""


def decode(path: Path, size: int) -> NDArray[np.uint8]:
    """The central square of an image, `size` pixels each way, as RGB `(3, size, size)`.

    That is: the shorter side is resized to `size` and the middle of the longer side is kept.
    Whatever the file holds (grey, palette, CMYK, 16 bits, transparency) becomes 8-bit RGB. The
    format is detected from the content, not the name; the EXIF orientation is not applied.
    """
    require("PIL", "data", "Reading images")
    from PIL import Image, UnidentifiedImageError

    try:
        if not path.is_file():
            raise UnreadableImage("there is no such file")
        with Image.open(path, formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise UnreadableImage(f"{image.width}x{image.height} pixels are too many")
            image.draft(None, (2 * size, 2 * size))  # an oversized JPEG is decoded at reduced size
            side = min(image.size)
            left, top = ((length - side) // 2 for length in image.size)
            square = to_rgb(image).resize(
                (size, size), Image.Resampling.BILINEAR, (left, top, left + side, top + side)
            )
    except UnreadableImage:
        raise
    except UnidentifiedImageError:
        raise UnreadableImage("not an image in a known format") from None
    except Exception as error:  # Pillow raises any kind of error on damaged files
        raise UnreadableImage(str(error) or type(error).__name__) from error
    return np.asarray(square).transpose(2, 0, 1)


def to_rgb(image: Image) -> Image:
    """Any image with three channels of 8 bits."""
    from PIL import Image

    if image.mode == "F":
        raise UnreadableImage("its pixels are floating-point numbers of unknown range")
    if image.mode.startswith("I"):  # 16 bits; Pillow's own conversion would clip them at 255
        wide = np.asarray(image).astype(np.int64).clip(0, 65535)
        return Image.fromarray((wide >> 8).astype(np.uint8)).convert("RGB")
    if "transparency" in image.info:  # palettes convert to RGB only by way of RGBA
        image = image.convert("RGBA")
    return image.convert("RGB")
