"""Image folders: a folder for each class, with or without a test part."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evenstream.data.dataset import CoarseLabels, Dataset
from evenstream.data.image_files import OnCorrupt
from evenstream.data.images.trees import class_folders, labelled_images, sub_folders
from evenstream.data.samples import Indices
from evenstream.data.split import DEFAULT_TEST_FRACTION, stratified_split
from evenstream.errors import InputError

_TEST_PARTS = ("test", "val", "valid", "validation")


def read_image_folder(
    path: Path,
    *,
    size: int = 64,
    test_fraction: float | None = None,
    seed: int = 0,
    on_corrupt: OnCorrupt = "stop",
    superclass: str | None = None,
) -> Dataset:
    """Read `CLASS/*.jpg` or, if there is a folder `train`, `train/CLASS/*.jpg`.

    The test images are in `test/CLASS` (or `val`, `valid`, `validation`) next to `train`. Without
    such a folder a stratified share of all images is set aside. Folders inside a class are part of
    it.

    Args:
        path: The folder.
        size: Height and width to which the images are resized.
        test_fraction: The share to set aside, 0.2 if not given.
        seed: Which images are set aside.
        on_corrupt: What to do with an unreadable file.
        superclass: "folder" for `SUPERCLASS/CLASS/*.jpg`: labels are then SUPERCLASS/CLASS.
    """
    if superclass not in (None, "folder"):
        raise InputError(
            f"superclasses of images are the folders above their classes: superclass=folder, not "
            f"{superclass}"
        )
    levels = 1 if superclass is None else 2
    root = path.resolve()
    folders = sub_folders(root)
    part = "train" if "train" in folders else ""
    classes = class_folders(root, part, levels)
    x, y = labelled_images(root, part, classes, size, on_corrupt, levels)
    test_part = next((name for name in _TEST_PARTS if part and name in folders), None)
    if test_part is None:
        fraction = DEFAULT_TEST_FRACTION if test_fraction is None else test_fraction
        train, test = stratified_split(y, fraction, seed)
        parts = (x.take(train), y[train], x.take(test), y[test])
    elif test_fraction is not None:
        raise InputError(f"{root} has its own test images; leave test_fraction out")
    else:
        parts = (x, y, *labelled_images(root, test_part, classes, size, on_corrupt, levels))
    coarse = None if superclass is None else _coarse(classes, parts[1], parts[3])
    return Dataset(root.name, *parts, classes=[*classes], coarse=coarse)


def _coarse(classes: list[str], y_train: Indices, y_test: Indices) -> CoarseLabels:
    """The superclasses, from the folders above those of the classes."""
    above = [name.partition("/")[0] for name in classes]
    names = sorted(set(above))
    number = np.array([names.index(name) for name in above], np.int64)
    return CoarseLabels(number[y_train], number[y_test], names, [*names])
