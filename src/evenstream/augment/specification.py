"""How an augmentation is written: parts by name, joined by "+"."""

from __future__ import annotations

import re

from evenstream.augment.crop import Crop
from evenstream.augment.flip import Flip
from evenstream.augment.gray import Gray
from evenstream.augment.jitter import Jitter
from evenstream.augment.operation import ColourPart, GeometricPart
from evenstream.augment.rand_augment import RandAugment
from evenstream.augment.resized_crop import ResizedCrop
from evenstream.errors import InputError, UnknownName, shown

_CLASSES: dict[str, type[GeometricPart] | type[ColourPart]] = {
    "crop": Crop,
    "flip": Flip,
    "resized-crop": ResizedCrop,
    "jitter": Jitter,
    "gray": Gray,
    "randaugment": RandAugment,
}

PARTS = {"none": "no augmentation"} | {name: part.meaning for name, part in _CLASSES.items()}


def parse(spec: str) -> tuple[GeometricPart | ColourPart, ...]:
    """Read a specification such as "crop+flip", "crop2" or "resized-crop0.2@224+flip+jitter".

    Args:
        spec: "none", or parts joined by "+", applied from left to right, each at most once, and
            those that change colours last.

    Raises:
        UnknownName: There is no such part.
        InputError: A part's options are out of range, or parts do not go together.
    """
    if not isinstance(spec, str):
        raise InputError(f"augment must be text such as 'crop+flip', or 'none', not {shown(spec)}")
    texts = [text.strip() for text in spec.split("+")]
    if texts == ["none"]:
        return ()
    parts: dict[str, GeometricPart | ColourPart] = {}
    for text in texts:
        found = re.fullmatch(r"(.*?)(-?(?:[0-9]+\.?[0-9]*|\.[0-9]+))?(?:@(.*))?", text)
        name, number, at = found.groups() if found else (text, None, None)
        if name not in PARTS:
            raise UnknownName("augmentation", text, PARTS)
        if name == "none":
            raise InputError(f"augmentation 'none' stands alone, not as in {spec!r}")
        if name in parts:
            raise InputError(f"augmentation {spec!r} has {name!r} more than once; once is enough")
        try:
            part = _CLASSES[name].read(number, at)
        except ValueError as error:
            raise InputError(f"augmentation {text!r}: {error}") from None
        last = next(reversed(parts.values()), part)
        if isinstance(part, GeometricPart) and isinstance(last, ColourPart):
            raise InputError(f"augmentation {spec!r}: parts that move pixels ({name}) come first")
        parts[name] = part
    return tuple(parts.values())
