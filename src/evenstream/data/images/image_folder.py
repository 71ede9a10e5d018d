"""Image folders: a folder for each class, with or without a test part."""

from __future__ import annotations

from pathlib import Path

from evenstream.data.dataset import Dataset
from evenstream.data.image_files import OnCorrupt
from evenstream.data.images.trees import class_folders, labelled_images, sub_folders
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
) -> Dataset:
    """Read `CLASS/*.jpg` or, if there is a folder `train`, `train/CLASS/*.jpg`.

    The test images are in `test/CLASS` (or `val`, `valid`, `validation`) next to `train`. Without
    such a folder a stratified share of all images is set aside. Folders inside a class are part of
    it.

    Args:
        path: The folder.
        size: Height and width that the images are brought to.
        test_fraction: The share to set aside, 0.2 if not given.
        seed: Which images are set aside.
        on_corrupt: What an unreadable file does.
    """
    root = path.resolve()
    folders = sub_folders(root)
    part = "train" if "train" in folders else ""
    classes = class_folders(root, part)
    x, y = labelled_images(root, part, classes, size, on_corrupt)
    test_part = next((name for name in _TEST_PARTS if part and name in folders), None)
    if test_part is None:
        fraction = DEFAULT_TEST_FRACTION if test_fraction is None else test_fraction
        train, test = stratified_split(y, fraction, seed)
        parts = (x.take(train), y[train], x.take(test), y[test])
    elif test_fraction is not None:
        raise InputError(f"{root} has its own test images; leave test_fraction out")
    else:
        parts = (x, y, *labelled_images(root, test_part, classes, size, on_corrupt))
    return Dataset(root.name, *parts, classes=[*classes])
